"""PostgreSQL, by psycopg2: its three levels, and who waits for whose lock."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from grader.nodes.databases.driver import Lost, Refused, Value, one_line
from grader.submission import BadRequest

SAID = {
    "read-uncommitted": "READ UNCOMMITTED",  # which is READ COMMITTED there
    "read-committed": "READ COMMITTED",
    "snapshot-isolation": "REPEATABLE READ",
    "repeatable-read": "REPEATABLE READ",
    "serializable": "SERIALIZABLE",
    "strict-serializable": "SERIALIZABLE",
}
REFUSALS = {
    "40001": "serialization failure",
    "40P01": "deadlock",
    "55P03": "lock timeout",
    "57014": "canceled",
}
CONNECT_SECONDS = 10
DEADLOCK = "20ms"  # after which a waiting session looks for one; ordinary users must leave it at the server's 1 s


def shown(url: str) -> str:
    """The URL without its password."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}@{host}" if user else host))


class PostgreSQL:
    """One server's database, where the run has a table of its own."""

    def __init__(self, url: str, isolation: str, table: str, lists: bool) -> None:
        try:
            import psycopg2
        except ImportError:
            raise BadRequest(
                "psycopg2, which talks to PostgreSQL, is not installed: pip install 'rankup[postgres]'"
            ) from None
        self.driver: Any = psycopg2
        self._url = url.replace("postgresql+psycopg2:", "postgresql:", 1)
        self.said, self.table, self.lists = SAID[isolation], table, lists
        self._made = False
        self._main = self.open()
        version = str(self._main.info.server_version)
        self.name = f"PostgreSQL {int(version[:-4])}.{int(version[-4:])}"

    def open(self) -> Any:
        """A connection on which every statement is what we write. Raises BadRequest."""
        try:
            made = self.driver.connect(self._url, connect_timeout=CONNECT_SECONDS, application_name="rankup")
        except (self.driver.Error, UnicodeError) as error:
            raise BadRequest(f"{shown(self._url)} cannot be reached: {one_line(error)}") from None
        made.autocommit = True
        return made

    def create(self, keys: Iterable[int]) -> None:
        kind = "integer[] NOT NULL DEFAULT '{}'" if self.lists else "integer"
        with self._stopping(), self._main.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {self.table} (k integer PRIMARY KEY, v {kind})")
            self._made = True
            cursor.execute(f"INSERT INTO {self.table} (k) SELECT unnest(%s)", (list(keys),))

    def connect(self) -> _Session:
        return _Session(self)

    def waits(self, pids: Collection[int]) -> Mapping[int, frozenset[int]]:
        with self._stopping(), self._main.cursor() as cursor:
            cursor.execute("SELECT pid, pg_blocking_pids(pid) FROM unnest(%s) AS pid", (list(pids),))
            return {pid: frozenset(holders) for pid, holders in cursor.fetchall()}

    def close(self) -> None:
        made, self._made = self._made, False
        try:
            if made:
                left = f". The table {self.table} is still there. Remove it with DROP TABLE {self.table}"
                if self._main.closed:
                    self._main = self.open()
                with self._stopping(left), self._main.cursor() as cursor:
                    cursor.execute("SET lock_timeout = '10s'")
                    cursor.execute(f"DROP TABLE {self.table}")
        finally:
            self._main.close()

    @contextlib.contextmanager
    def _stopping(self, more: str = "") -> Iterator[None]:
        """What goes wrong here, no run can go on with."""
        try:
            yield
        except self.driver.Error as error:
            raise BadRequest(f"{self.name} says: {one_line(error)}{more}") from None


class _Session:
    def __init__(self, database: PostgreSQL) -> None:
        self._database, self._driver = database, database.driver
        self._connection = database.open()
        self.pid: int = self._connection.info.backend_pid
        with contextlib.suppress(self._driver.Error), self._connection.cursor() as cursor:
            cursor.execute(f"SET deadlock_timeout = '{DEADLOCK}'")

    def begin(self) -> None:
        self._execute(f"BEGIN ISOLATION LEVEL {self._database.said}")

    def read(self, key: int) -> Value:
        found = self._execute(f"SELECT v FROM {self._database.table} WHERE k = %s", key)
        return tuple(found) if self._database.lists else found

    def write(self, key: int, value: int) -> None:
        new = "v || %s" if self._database.lists else "%s"
        self._execute(f"UPDATE {self._database.table} SET v = {new} WHERE k = %s", value, key)

    def commit(self) -> None:
        self._execute("COMMIT")

    def rollback(self) -> None:
        self._execute("ROLLBACK")

    def cancel(self) -> None:
        with contextlib.suppress(self._driver.Error):
            self._connection.cancel()

    def close(self) -> None:
        with contextlib.suppress(self._driver.Error):
            self._connection.close()

    def _execute(self, statement: str, *values: int) -> Any:
        """Run one statement; the first value of its first row, if it has rows."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement, values)
                return cursor.fetchone()[0] if cursor.description else None
        except self._driver.Error as error:
            code = error.pgcode
            if self._connection.closed or (code or "")[:2] == "08" or code in ("57P01", "57P02", "57P03"):
                raise Lost(one_line(error)) from None
            if code in REFUSALS:
                raise Refused(REFUSALS[code]) from None
            raise BadRequest(f"{self._database.name} says: {one_line(error)}") from None
