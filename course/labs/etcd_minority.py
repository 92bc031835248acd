"""Three etcd members, and what the ones outside of a majority still do: a CP store on this machine.

    python etcd_minority.py [--json]

needs `etcd` (Debian: `apt-get install etcd-server`) and no rights: three members on the loopback interface, in a
private folder. They reach each other through links of ours that can be cut. The leader is cut off, then healed; both
followers are stopped with SIGSTOP, then go on; the leader is killed. etcd manual: API guarantees, Tuning. About 12 s.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from partition import Links
from servers import Seen, Server, Servers, free_ports, main, program, until, version

MISSING = "etcd is not installed: on Debian and Ubuntu, apt-get install etcd-server"
PATIENCE = 1.2  # seconds that a client waits for an answer; a leader alone needs up to two election timeouts to give up
Json = dict[str, Any]
NAMES = ("m1", "m2", "m3")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy of this machine is not asked


class NoAnswerError(Exception):
    """No answer in time: the operation may have happened, or may happen yet."""


class RefusedError(Exception):
    """etcd's own error."""


@dataclass(frozen=True)
class Member:
    """One member, and the client's side of its HTTP API (etcd manual: gRPC gateway)."""

    name: str
    url: str
    server: Server

    def ask(self, path: str, body: Json, patience: float = PATIENCE, *, leader: bool = False) -> Json:
        """One request; with `leader`, a member that knows none refuses at once. Raises NoAnswerError, RefusedError."""
        headers = {"Content-Type": "application/json"} | ({"Grpc-Metadata-hasleader": "true"} if leader else {})
        request = urllib.request.Request(f"{self.url}/v3/{path}", json.dumps(body).encode(), headers)
        try:
            with _DIRECT.open(request, timeout=patience) as answer:
                found: Json = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            with error:
                raise RefusedError(json.load(error).get("message", error.reason)) from None
        except OSError as error:  # also URLError and TimeoutError
            raise NoAnswerError(str(error)) from None

    def knows_a_leader(self) -> bool:
        return self.leader() != "0"

    def put(self, key: str, value: str, patience: float = PATIENCE, *, leader: bool = False) -> None:
        self.ask("kv/put", {"key": _coded(key), "value": _coded(value)}, patience, leader=leader)

    def get(self, key: str, *, serializable: bool = False, leader: bool = False) -> str:
        """The value, or "nothing". Serializable: as this member has it; else a majority confirms the leader first."""
        pairs = self.ask("kv/range", {"key": _coded(key), "serializable": serializable}, leader=leader).get("kvs", [])
        return base64.b64decode(pairs[0]["value"]).decode() if pairs else "nothing"

    def id(self) -> str:
        return str(self.ask("maintenance/status", {})["header"]["member_id"])

    def leader(self) -> str:
        """The id of the leader that this member knows, or "0"."""
        try:
            return str(self.ask("maintenance/status", {}).get("leader", "0"))
        except NoAnswerError:
            return "0"


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def start(servers: Servers, links: Links) -> dict[str, Member]:
    """Three members that reach each other through the links. Raises MissingError."""
    etcd = program("etcd", MISSING)
    ports = free_ports(2 * len(NAMES))
    listen = {name: [f"http://127.0.0.1:{port}" for port in ports[i::3]] for i, name in enumerate(NAMES)}
    # Raft's messages between two members say who sends them (etcd's package rafthttp)
    reached = {name: f"http://127.0.0.1:{links.proxy(name, ports[i], _sender)}" for i, name in enumerate(NAMES)}
    cluster = ",".join(f"{name}={url}" for name, url in reached.items())
    members = {}
    for name, (peers, clients) in listen.items():
        command = [etcd, "--name", name, "--data-dir", name, "--initial-cluster", cluster]
        command += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", reached[name]]
        command += ["--listen-client-urls", clients, "--advertise-client-urls", clients]
        members[name] = Member(name, clients, servers.start(name, command))
    for member in members.values():
        until(f"{member.name} knows a leader", 30, member.knows_a_leader)
    return members


def _sender(first: bytes) -> str:
    found = re.search(rb"X-Server-From: ([0-9a-f]+)", first)
    return str(int(found[1], 16)) if found else ""


def came_of(ask: Callable[[], str | None]) -> str:
    """What a client hears, in words."""
    try:
        value = ask()
    except NoAnswerError:
        return f"no answer in {PATIENCE:g} s"
    except RefusedError as error:
        return f"refused: {error}"
    return "written" if value is None else str(value)


def write_again(members: list[Member], value: str) -> float:
    """A client that tries the members in turn, each for 0.1 s, until one takes the write; the seconds that took."""
    turns = itertools.cycle(members)

    def taken() -> bool:
        try:
            next(turns).put("x", value, 0.1)
        except (NoAnswerError, RefusedError):
            return False
        return True

    return until("a write is taken", 30, taken)


def split(members: list[Member]) -> tuple[Member, list[Member]]:
    """The leader, and the others."""
    leader = members[0].leader()
    (found,) = (member for member in members if member.id() == leader)
    return found, [member for member in members if member is not found]


def minority(member: Member, seen: Seen, name: str) -> None:
    """What one member without a majority says; `name` begins the names of its figures."""
    answers = {
        "a linearizable read": came_of(lambda: member.get("x")),
        "a write": came_of(lambda: member.put("x", "minority")),
        "a write that requires a leader": came_of(lambda: member.put("x", "minority", leader=True)),
        "a serializable read": came_of(lambda: member.get("x", serializable=True)),
    }
    for what, came in answers.items():
        seen.row(f"  alone: {what}", came)
        seen.figures[f"{name}_{what.removeprefix('a ').replace(' ', '_')}"] = came


def lab(servers: Servers, seen: Seen) -> None:
    """Raises MissingError."""
    with Links() as links:
        members = list(start(servers, links).values())
        seen.versions["etcd"] = version(program("etcd", MISSING), "--version")
        leader, others = split(members)
        leader.put("x", "1", 5)
        seen.row("x, written through the leader", f"{others[0].get('x')} at a follower, linearizable")

        ids = {member.name: member.id() for member in members}
        links.cut(*((ids[leader.name], other.name) for other in others))
        links.cut(*((ids[other.name], leader.name) for other in others))
        with ThreadPoolExecutor(1) as aside:  # at once, while it still believes that it leads
            in_doubt = aside.submit(came_of, lambda: leader.put("doubt", "by the old leader"))
            again = write_again(others, "2")
        seen.row(f"1. leader {leader.name} cut off: x = 2 written", f"{again:.2f} s later, by a new leader")
        seen.row("  alone: a write at once, of doubt", in_doubt.result())
        minority(leader, seen, "cut_off")
        seen.row("  the others: a linearizable read", came_of(lambda: others[0].get("x")))
        links.heal()
        healed = until("the cut-off member answers", 30, lambda: came_of(lambda: leader.get("x")) == "2")
        seen.row("  healed: it reads x = 2, linearizable", f"{healed * 1000:.0f} ms later")
        seen.row("  doubt, linearizable: no majority had it", came_of(lambda: others[0].get("doubt")))
        seen.figures.update(cut_off_again_s=again, healed_s=healed, doubt=others[0].get("doubt"))

        leader, others = split(members)
        for other in others:
            other.server.stop()
        seen.row("2. both followers stopped (SIGSTOP)", f"{leader.name} is alone")
        minority(leader, seen, "alone")
        for other in others:
            other.server.go_on()
        again = write_again(members, "3")
        seen.row("  both go on: x = 3 written", f"{again:.2f} s later")
        seen.figures["stopped_again_s"] = again

        leader, others = split(members)
        leader.server.end()
        again = write_again(others, "4")
        seen.row(f"3. leader {leader.name} killed: x = 4 written", f"{again:.2f} s later")
        seen.row("  x at the two that are left, linearizable", ", ".join(other.get("x") for other in others))
        seen.figures["killed_again_s"] = again


if __name__ == "__main__":
    sys.exit(main(lab, sys.argv[1:]))
