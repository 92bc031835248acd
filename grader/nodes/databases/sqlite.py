"""SQLite: serializable; its only other level is read uncommitted, between connections that share a cache."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from grader.nodes.databases.driver import Refused, Value, as_list, one_line
from grader.submission import BadRequest

SAID = {
    "read-uncommitted": "PRAGMA read_uncommitted",
    "serializable": "its default, serializable",
    "strict-serializable": "its default, serializable",
}
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class SQLite:
    """A file, by default a temporary one in write-ahead mode, where reads go on while another transaction writes."""

    def __init__(self, path: Path | None, isolation: str, table: str, lists: bool) -> None:
        self.name, self.said, self.table, self.lists = f"SQLite {sqlite3.sqlite_version}", SAID[isolation], table, lists
        self.shared = isolation == "read-uncommitted"
        self._folder = Path(tempfile.mkdtemp(prefix="rankup-sqlite-")) if path is None else None
        self.path = (self._folder or Path()) / "run.db" if path is None else path
        self._new = path is not None and not path.exists()
        self._main: sqlite3.Connection | None = None
        try:
            with _refusals():
                self._main = self.open()
                if self._folder is not None:
                    self._main.execute("PRAGMA journal_mode=WAL")
                self._main.execute("SELECT count(*) FROM sqlite_master").fetchone()
                if self.shared and self._main.execute("PRAGMA compile_options").fetchall().count(
                    ("OMIT_SHARED_CACHE",)
                ):
                    raise BadRequest("this SQLite was built without a shared cache, so it has no read uncommitted")
        except BaseException as error:
            self.close()
            if isinstance(error, Refused):
                raise BadRequest(f"{self.path}: {error}") from None
            raise

    def open(self) -> sqlite3.Connection:
        """A connection that never waits for another one's lock."""
        uri = f"file:{quote(str(self.path.absolute()))}" + ("?cache=shared" if self.shared else "")
        made = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        if self.shared:
            made.execute("PRAGMA read_uncommitted=1")
        return made

    def create(self, keys: Iterable[int]) -> None:
        assert self._main is not None
        with _stopping(self.path):
            self._main.execute("BEGIN IMMEDIATE")
            self._main.execute(
                f"CREATE TABLE {self.table} (k INTEGER PRIMARY KEY, v {'TEXT' if self.lists else 'INT'})"
            )
            self._main.executemany(f"INSERT INTO {self.table} (k) VALUES (?)", [(key,) for key in keys])
            self._main.execute("COMMIT")

    def connect(self) -> _Session:
        return _Session(self)

    def waits(self, pids: Collection[int]) -> Mapping[int, frozenset[int]]:
        return {pid: frozenset() for pid in pids}

    def close(self) -> None:
        main, self._main = self._main, None
        try:
            if main is not None and self._folder is None and not self._new:
                with _stopping(self.path, f". The table {self.table} is still there"):
                    main.execute(f"DROP TABLE IF EXISTS {self.table}")
        finally:
            if main is not None:
                main.close()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            elif self._new:
                for end in ("", "-wal", "-shm", "-journal"):
                    Path(f"{self.path}{end}").unlink(missing_ok=True)


class _Session:
    def __init__(self, database: SQLite) -> None:
        self._table, self._lists = database.table, database.lists
        with _stopping(database.path):
            self._connection = database.open()
        self.pid = id(self)

    def begin(self) -> None:
        with _refusals():
            self._connection.execute("BEGIN")

    def read(self, key: int) -> Value:
        with _refusals():
            found = self._connection.execute(f"SELECT v FROM {self._table} WHERE k = ?", (key,)).fetchone()[0]
        return as_list(found) if self._lists else found

    def write(self, key: int, value: int) -> None:
        new = "coalesce(v || ',', '') || CAST(? AS TEXT)" if self._lists else "?"
        with _refusals():
            self._connection.execute(f"UPDATE {self._table} SET v = {new} WHERE k = ?", (value, key))

    def commit(self) -> None:
        with _refusals():
            self._connection.execute("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def cancel(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED:
            raise Refused(one_line(error)) from None
        raise BadRequest(f"SQLite says: {one_line(error)}") from None


@contextlib.contextmanager
def _stopping(path: Path, more: str = "") -> Iterator[None]:
    """What goes wrong here, no run can go on with."""
    try:
        yield
    except sqlite3.Error as error:
        raise BadRequest(f"{path}: SQLite says: {one_line(error)}{more}") from None
