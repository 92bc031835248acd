"""Redis with a replica and three Sentinels: what an isolated master acknowledges is lost at the fail-over.

    python redis_failover.py [--json]

needs `redis-server` (Debian: `apt-get install redis-server`) and no rights: all on the loopback interface, in a private
folder. A link of ours, which can be cut, is the only way of the replica and the Sentinels to the master; a client
beside the master reaches it all the time, and writes. Once as Redis comes, once with min-replicas-to-write. Redis
manual: High availability with Redis Sentinel; Redis replication; WAIT. About 15 s.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from types import TracebackType
from typing import Any

from partition import Links
from servers import Seen, Servers, free_ports, main, program, until, version

MISSING = "Redis is not installed: on Debian and Ubuntu, apt-get install redis-server"
BEFORE, AFTER = 100, 300  # writes before the cut, and after the replica was promoted
PAUSE = 0.005  # seconds between two writes of the client
DOWN_AFTER = 1000  # milliseconds of silence after which a Sentinel takes the master for dead
BOUND = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"]  # replicas; seconds since one was heard


class RefusedError(Exception):
    """Redis' own error."""


class Redis:
    """A client's connection to one server, as a context (Redis manual: Redis serialization protocol, RESP2)."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __enter__(self) -> Redis:
        until(f"port {self.port} answers", 30, self._connect)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _t: TracebackType | None) -> None:
        self._file.close()
        self._socket.close()

    def _connect(self) -> bool:
        try:
            self._socket = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        except OSError:
            return False
        self._file = self._socket.makefile("rb")
        return True

    def ask(self, *words: str | int) -> Any:
        """One command; returns a text, a number, None or a list of these. Raises RefusedError."""
        coded = [str(word).encode() for word in words]
        command = b"*%d\r\n" % len(coded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in coded)
        try:
            self._socket.sendall(command)
            return self._answer()
        except ConnectionError:  # a Sentinel that changes a server's role closes its clients' connections
            self.__exit__(None, None, None)
            self.__enter__()
            self._socket.sendall(command)
            return self._answer()

    def _answer(self) -> Any:
        line = self._file.readline()
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise RefusedError(rest)
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else self._file.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self._answer() for _ in range(int(rest))]
        raise ConnectionError(f"port {self.port} closed the connection")

    def role(self) -> str:
        return str(self.ask("ROLE")[0])

    def number(self, kind: str) -> int:
        """How many keys of a kind it has."""
        return len(self.ask("KEYS", f"{kind}:*"))

    def follows(self) -> bool:
        return "master_link_status:up" in self.ask("INFO", "replication")


def start(servers: Servers, links: Links, name: str, options: list[str]) -> tuple[int, int]:
    """A master and a replica, watched by three Sentinels; returns their ports. Raises MissingError."""
    redis = program("redis-server", MISSING)
    master, replica, *sentinels = free_ports(5)
    link = links.proxy(name, master)
    for role, port, more in (("master", master, options), ("replica", replica, ["--replicaof", f"127.0.0.1 {link}"])):
        folder = servers.folder / f"{name}-{role}"
        folder.mkdir()
        command = [redis, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
        command += ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
        servers.start(folder.name, [*command, *more])
    with Redis(replica) as server:
        until("the replica follows", 30, server.follows)  # a Sentinel asks the master for its replicas once in 10 s
    for number, port in enumerate(sentinels):
        path = servers.folder / f"{name}-sentinel-{number}.conf"
        about = [f"monitor lab 127.0.0.1 {link} 2", f"down-after-milliseconds lab {DOWN_AFTER}"]
        lines = [f"port {port}", "bind 127.0.0.1", f"dir {servers.folder}", *(f"sentinel {line}" for line in about)]
        path.write_text("\n".join(lines) + "\n")
        servers.start(path.stem, [redis, str(path), "--sentinel"])
    for port in sentinels:
        watch(port)
    return master, replica


def watch(port: int) -> None:
    """Waits until a Sentinel knows the replica and the other two, and makes it quick."""
    with Redis(port) as sentinel:
        with contextlib.suppress(RefusedError):  # Redis before 7 cannot
            # milliseconds, for 10000 and 2000: only the end is sooner, when the old master is made a replica
            sentinel.ask("SENTINEL", "DEBUG", "INFO-PERIOD", 250, "PUBLISH-PERIOD", 250)

        def knows() -> bool:
            words = sentinel.ask("SENTINEL", "MASTER", "lab")
            known = dict(zip(words[::2], words[1::2], strict=True))
            return (known["num-slaves"], known["num-other-sentinels"]) == ("1", "2")

        until("a Sentinel knows the others", 30, knows)


def episode(servers: Servers, links: Links, seen: Seen, name: str, options: list[str]) -> None:
    """Cuts the master off while a client writes to it, until some time after the fail-over; then heals."""
    at_master, at_replica = start(servers, links, name, options)
    with Redis(at_master) as master, Redis(at_replica) as replica:
        for number in range(BEFORE):
            master.ask("SET", f"before:{number}", number)
        seen.row(f"  {BEFORE} writes, then WAIT 1", f"{master.ask('WAIT', 1, 1000)} replica has them")

        links.cut(("", name))
        acknowledged = refused = after = 0
        promoted = first_refusal = 0.0
        begun = time.monotonic()
        while after < AFTER:
            try:
                master.ask("SET", f"cut:{acknowledged + refused}", 1)
                acknowledged += 1
            except RefusedError as error:
                first_refusal = first_refusal or time.monotonic() - begun
                refusal = str(error)
                refused += 1
            if not promoted and replica.role() == "master":
                promoted = time.monotonic() - begun
            after += promoted > 0
            if time.monotonic() > begun + 30:
                raise TimeoutError("30 s after the cut the replica is still not promoted")
            time.sleep(PAUSE)
        seen.row("  master cut off; the replica is promoted", f"{promoted:.2f} s later: two masters")
        seen.row("  writes that the cut-off master acknowledged", f"{acknowledged} of {acknowledged + refused}")
        if refused:
            seen.row(f"  refused from {first_refusal:.2f} s on", refusal)
        else:
            seen.row("  WAIT 1 for the last of them", f"{master.ask('WAIT', 1, 100)} replicas have it")

        links.heal()
        healed = until("the old master follows", 30, lambda: master.role() == "slave" and master.follows())
        kept = [server.number("cut") for server in (master, replica)]
        seen.row("  healed: the old master follows the new", f"{healed:.2f} s later, with hurried Sentinels")
        lost = acknowledged - kept[1]
        seen.row("  of the acknowledged, at old and new master", f"{kept[0]} and {kept[1]}: {lost} lost")
        seen.row("  of the writes before the cut", f"{replica.number('before')} of {BEFORE}")
        figures = {"promoted_s": promoted, "acknowledged": acknowledged, "refused": refused, "kept": kept[1]}
        figures |= {"healed_s": healed, "kept_before": replica.number("before"), "first_refusal_s": first_refusal}
        seen.figures.update({f"{name}_{key}": value for key, value in figures.items()})


def lab(servers: Servers, seen: Seen) -> None:
    """Raises MissingError."""
    with Links() as links:
        seen.versions["Redis"] = version(program("redis-server", MISSING), "--version")
        seen.row("1. asynchronous replication, as Redis comes", "")
        episode(servers, links, seen, "plain", [])
        seen.row(f"2. with {' '.join(BOUND).replace('--', '')}", "")
        episode(servers, links, seen, "bound", BOUND)


if __name__ == "__main__":
    sys.exit(main(lab, sys.argv[1:]))
