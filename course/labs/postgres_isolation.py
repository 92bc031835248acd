"""What PostgreSQL's isolation levels allow, on a real server: write skew, lost updates, and its log of changes.

    python postgres_isolation.py [--json]

needs PostgreSQL's programs (Debian: `apt-get install postgresql`) and psycopg2 (`pip install psycopg2-binary`), no
running server and no rights: it makes one server in a private folder, reached by a unix socket alone. Two connections
take turns, so that nothing depends on time. Each level plays the same two histories: two doctors go off call, and two
deposits into one account. The rows are arrays to which transactions append, so that the histories can be judged by
`rankup history check --model txn-list-append`; `--json` prints them. At the end logical decoding (the plugin
test_decoding) shows what change data capture reads from the write-ahead log. PostgreSQL manual: Transaction Isolation;
Logical Decoding. About 4 s.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from postgres_two_phase import tool, unprivileged
from servers import MissingError, Seen, Servers, main, until, version

try:
    import psycopg2
    from psycopg2 import errors
except ImportError:  # the lab says so in its own sentence
    psycopg2 = None

MISSING = "psycopg2 is not installed: pip install psycopg2-binary"
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
REFUSALS = {"40001": "refused (40001)", "40P01": "refused, a deadlock (40P01)"}


class Client:
    """One connection, whose transactions are recorded."""

    def __init__(self, name: str, folder: Path, level: str, told: list[dict[str, Any]]) -> None:
        self.name, self.told = name, told
        self.connection = psycopg2.connect(host=str(folder), user="rankup", dbname="postgres")
        self.connection.set_session(isolation_level=level)
        self.cursor = self.connection.cursor()
        self.ops: list[list[Any]] = []

    def read(self, key: str) -> list[int]:
        self.cursor.execute("SELECT v FROM lists WHERE k = %s", (key,))
        found = self.cursor.fetchone()
        assert found is not None
        self.ops.append(["r", key, found[0]])
        return list(found[0])

    def append(self, key: str, value: int) -> None:
        self.cursor.execute("UPDATE lists SET v = v || %s WHERE k = %s", (value, key))
        self.ops.append(["append", key, value])

    def write(self, key: str, values: list[int], value: int) -> None:
        """Appends in the program, as code that reads, computes and writes does."""
        self.cursor.execute("UPDATE lists SET v = %s WHERE k = %s", ([*values, value], key))
        self.ops.append(["append", key, value])

    def end(self, refused: str = "") -> str:
        """Commits; what came of it."""
        try:
            if not refused:
                self.connection.commit()
        except errors.OperationalError as error:
            refused = str(error.pgcode)
        self.connection.rollback()
        self._tell("fail" if refused else "ok")
        return REFUSALS.get(refused, refused) or "committed"

    def tries(self, what: str, *given: Any) -> str:
        """One operation, and if it is refused, the end."""
        try:
            getattr(self, what)(*given)
        except errors.OperationalError as error:
            return self.end(str(error.pgcode))
        return ""

    def _tell(self, status: str) -> None:
        self.told.append({"index": len(self.told), "process": self.name, "type": status, "ops": self.ops})
        self.ops = []


@contextmanager
def two(folder: Path, level: str, told: list[dict[str, Any]]) -> Iterator[tuple[Client, Client]]:
    """Two clients, and empty lists before them."""
    with_lists = psycopg2.connect(host=str(folder), user="rankup", dbname="postgres")
    cursor = with_lists.cursor()
    cursor.execute("DROP TABLE IF EXISTS lists; CREATE TABLE lists (k text PRIMARY KEY, v int[] NOT NULL)")
    cursor.execute("INSERT INTO lists VALUES ('x', '{}'), ('y', '{}')")
    with_lists.commit()
    with_lists.close()
    clients = Client("T1", folder, level, told), Client("T2", folder, level, told)
    yield clients
    last = Client("T3", folder, level, told)
    last.read("x"), last.read("y")
    last.end()
    for each in (*clients, last):
        each.connection.close()


def doctors(folder: Path, level: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Each of two doctors sees that the other one is on call, and goes off call: an append to x, and one to y."""
    told: list[dict[str, Any]] = []
    with two(folder, level, told) as (one, other):
        for each in (one, other):
            each.read("x"), each.read("y")
        one.append("x", 1)
        other.append("y", 2)
        ends = [one.end(), other.end()]
    return ends, told


def deposits(folder: Path, level: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Two programs read the list of deposits, add theirs, and write it back."""
    told: list[dict[str, Any]] = []
    with two(folder, level, told) as (one, other):
        first, second = one.read("x"), other.read("x")
        one.write("x", first, 1)
        ends = [one.end()]
        refused = other.tries("write", "x", second, 2)
        ends.append(refused or other.end())
    return ends, told


def captured(folder: Path) -> list[str]:
    """What a reader of the write-ahead log hears of two transactions, of which the second one is taken back."""
    connection = psycopg2.connect(host=str(folder), user="rankup", dbname="postgres")
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("SELECT pg_create_logical_replication_slot('search_index', 'test_decoding')")
    cursor.execute("BEGIN; UPDATE lists SET v = '{7}' WHERE k = 'x'; UPDATE lists SET v = '{8}' WHERE k = 'y'; COMMIT")
    cursor.execute("BEGIN; UPDATE lists SET v = '{9}' WHERE k = 'x'; ROLLBACK")
    cursor.execute("SELECT data FROM pg_logical_slot_get_changes('search_index', NULL, NULL)")
    changes = [row[0] for row in cursor.fetchall()]
    cursor.execute("SELECT pg_drop_replication_slot('search_index')")
    connection.close()
    return [" ".join(word for word in line.split() if not word.isdigit()) for line in changes]


def server(servers: Servers) -> Path:
    """Makes and starts one; returns the folder of its socket. Raises MissingError."""
    if psycopg2 is None:
        raise MissingError(MISSING)
    initdb, postgres, user = tool("initdb"), tool("postgres"), unprivileged()
    folder = servers.folder / "pg"
    folder.mkdir()
    if user is not None:
        servers.folder.chmod(0o711)
        shutil.chown(folder, user)
    if len(os.fsencode(folder)) > 85:  # a socket's path has room for 107 bytes (unix(7))
        raise MissingError(f"{folder} is too long a path for a unix socket: set TMPDIR to a short one.")
    data = str(folder / "data")
    command = [initdb, "-D", data, "-U", "rankup", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"]
    if servers.start("initdb", command, user=user).process.wait(60):
        raise RuntimeError("initdb failed")
    settings = {"listen_addresses": "", "unix_socket_directories": folder, "wal_level": "logical",
                "shared_buffers": "16MB", "dynamic_shared_memory_type": "mmap"}  # fmt: skip
    servers.start("postgres", [postgres, "-D", data, *(f"--{key}={value}" for key, value in settings.items())],
                  signal.SIGQUIT, user)  # fmt: skip
    until("the server answers", 30, lambda: _answers(folder))
    return folder


def _answers(folder: Path) -> bool:
    try:
        psycopg2.connect(host=str(folder), user="rankup", dbname="postgres").close()
    except psycopg2.OperationalError:
        return False
    return True


def lab(servers: Servers, seen: Seen) -> None:
    """Raises MissingError."""
    folder = server(servers)
    seen.versions["PostgreSQL"] = version(tool("postgres"), "--version")
    for name, play in (("two doctors go off call", doctors), ("two deposits, read and written back", deposits)):
        seen.row(name, "T1, T2")
        for level in LEVELS:
            ends, told = play(folder, level)
            lists = {key: value for _, key, value in told[-1]["ops"]}
            seen.row(f"  {level}", f"{ends[0]}, {ends[1]}; then x = {lists['x']}, y = {lists['y']}")
            short = f"{play.__name__} {level}"
            seen.figures[short] = f"{ends[0]}, {ends[1]}"
            seen.figures[f"{short}: history"] = json.dumps(told)
    seen.row("read from the write-ahead log", "")
    for line in captured(folder):
        seen.row("", line)
    seen.row("", "(nothing of the transaction that was rolled back)")


if __name__ == "__main__":
    sys.exit(main(lab, sys.argv[1:]))
