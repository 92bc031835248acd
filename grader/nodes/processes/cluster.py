"""Nodes as processes, and the router between them, the clients and the services.

The first thing that a program does against the protocol, or that it crashes, is the run's `trouble`, and ends it.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.nodes.processes import services
from grader.nodes.processes.child import DISK, MOST_WAITING, Child, Log, status_text
from grader.nodes.processes.loop import Loop
from grader.nodes.processes.network import CLIENTS, NODES, SERVICES, Network
from grader.nodes.protocol import LONGEST_LINE, RULE, Body, Malformed, Message, error_name, parse, quoted
from grader.trace.story import Fault

HARNESS = "c0"  # the client that starts the nodes
MOST_IN_FLIGHT = 100_000  # messages under way: no honest program of a run comes near
HOLD_AT = 50_000  # messages under way from which on nothing more is read from nodes
END_SECONDS = 10  # in which killed processes must be gone: the kernel may be busy, they have no say in it


@dataclass(frozen=True)
class Trouble:
    """Why a run ended before its time: a kind, a sentence, the node."""

    kind: str
    message: str
    node: str


@dataclass
class Node:
    """What the harness knows of one node."""

    id: str
    log: Log = field(default_factory=Log)
    child: Child | None = None
    lives: int = 0
    asked: int = 0  # the last msg_id that the harness itself sent it
    greeted: bool = False  # it answered init
    ready: bool = False  # and topology, where that is told
    paused: bool = False
    wanted: bool = True  # False while it is to be down
    dying: bool = False  # killed by us, and not gone yet


class Cluster:
    """`ids` nodes that run `command`, each with `environment` and a folder $NODE_DISK of its own.

    Each life of a node begins with init, and then with `topology`, if there is one: a crash forgets that, too.
    `on_reply(client, message)` is called for each message to a client that was registered with `add_client`.
    """

    def __init__(
        self,
        loop: Loop,
        network: Network,
        command: Sequence[str],
        ids: Sequence[str],
        seed: int,
        environment: Mapping[str, str] | None = None,
        topology: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.loop, self.network, self.command = loop, network, tuple(command)
        self.ids = tuple(ids)
        self.nodes = {each: Node(each) for each in ids}
        self.trouble: Trouble | None = None
        self.late_answers = 0
        self._seed, self._topology = seed, topology
        self._services = services.start(seed)
        self._clients: dict[str, Callable[[Message], None]] = {HARNESS: self._initialized}
        self._in_flight = 0
        self._held = False
        self._base = dict(os.environ if environment is None else environment)
        self._disks = Path(tempfile.mkdtemp(prefix="rankup-nodes-"))

    def start(self) -> None:
        """Start all nodes; `ready` tells when all have answered init, and topology."""
        for each in self.ids:
            self.start_node(each)

    @property
    def ready(self) -> bool:
        return all(node.ready for node in self.nodes.values())

    @property
    def calm(self) -> bool:
        """Whether no message is under way."""
        return self._in_flight == 0

    def add_client(self, name: str, on_reply: Callable[[Message], None]) -> None:
        self._clients[name] = on_reply

    def start_node(self, each: str) -> None:
        """Start a node that does not run, or again when it is gone, and send it init."""
        node = self.nodes[each]
        node.wanted = True
        if node.child is not None:
            return  # it is being killed; `_ended` starts the next life
        node.lives += 1
        node.greeted = node.ready = node.paused = False
        disk = self._disks / each
        disk.mkdir(exist_ok=True)
        node.child = Child(
            self.loop,
            self.command,
            {**self._base, DISK: str(disk), "NODE_SEED": f"{self._seed}/{each}/{node.lives}"},
            node.log,
            lambda line: self._line(node, line),
            lambda line: self._long(node, line),
            lambda status: self._ended(node, status),
        )
        self._tell(node, {"type": "init", "node_id": each, "node_ids": list(self.ids)})

    def send(self, message: Message, by: str) -> None:
        """Route a message to whom it is for. `by` is who sends it: perhaps a client's request handed on."""
        kind = NODES
        if by in self._clients or message.dest in self._clients:
            kind = CLIENTS
        elif by in self._services or message.dest in self._services:
            kind = SERVICES
        if HARNESS not in (by, message.dest):
            self.network.count(kind, message.type)
        for delay in self.network.fates(by, message.dest, kind):
            if delay == 0:
                self._deliver(message, by)
                continue
            self._in_flight += 1
            self.loop.after(delay, lambda: self._arrive(message, by))
        if self._in_flight > MOST_IN_FLIGHT:
            self._fail("flood", by, f"sends faster than its messages arrive: {self._in_flight:,} are in "
                       f"flight, the last of type {message.type!r}. {STORM}")  # fmt: skip
        self._hold(self._in_flight > HOLD_AT)

    def begin(self, fault: Fault) -> None:
        """A fault befalls the nodes."""
        self.network.cut(fault.pairs)
        for node in map(self.nodes.__getitem__, fault.nodes):
            if fault.what == "down":
                node.wanted = node.ready = False
                if node.child is not None:
                    node.dying = True
                    node.child.kill()
            elif fault.what == "pause" and node.child is not None:
                node.paused = True
                node.child.stop()

    def end(self, fault: Fault) -> None:
        """The fault is over: links carry messages again, nodes are started again or go on."""
        self.network.mend(fault.pairs)
        for each in fault.nodes:
            node = self.nodes[each]
            if fault.what == "down":
                self.start_node(each)
            elif fault.what == "pause" and node.child is not None:
                node.paused = False
                node.child.go_on()

    def not_ready(self, seconds: float) -> None:
        """Make it the trouble that not every node answered init, or topology, within so many seconds."""
        late = next(node for node in self.nodes.values() if not node.ready)
        asked = "topology" if late.greeted else "init"
        self._fail(f"no_{asked}", late.id, f"did not answer {asked} within {seconds:g} s. Answer with a body of "
                   f"type '{asked}_ok' and the request's msg_id as in_reply_to. Flush stdout after each line, because "
                   "a pipe is buffered, unlike a terminal")  # fmt: skip

    def fail(self, node: str, words: str) -> None:
        """Make it the trouble that a node did something against the protocol; `words` go on from its name."""
        self._fail("protocol", node, words)

    def close(self) -> None:
        """Kill everything, wait until it is gone, and remove the nodes' folders."""
        children = [node.child for node in self.nodes.values() if node.child is not None]
        for node in self.nodes.values():
            node.wanted = False
        for child in children:
            child.kill()
        try:
            gone = self.loop.until(lambda: all(child.over for child in children), self.loop.now() + END_SECONDS)
        finally:
            shutil.rmtree(self._disks, ignore_errors=True)
        if not gone:
            raise RuntimeError(f"processes of {' '.join(self.command)!r} cannot be killed; does the kernel hold them?")

    def _line(self, node: Node, line: bytes) -> None:
        """A node printed a line."""
        if self.trouble is not None:
            return
        try:
            message = parse(line)
            self._check(node, message, line)
        except Malformed as wrong:
            self.fail(node.id, str(wrong))
            return
        self.send(message, node.id)

    def _check(self, node: Node, message: Message, line: bytes) -> None:
        """Raise Malformed for a message that this node cannot send."""
        if message.src != node.id and message.src not in self._clients:
            raise Malformed(f"printed a message with another node's name as 'src': {quoted(line)}. Use the node_id "
                            f"that init gave the node, here {node.id!r}, or the name of a client whose request it "
                            "hands on")  # fmt: skip
        if message.dest in self.nodes or message.dest in self._clients:
            return
        if message.dest not in self._services:
            raise Malformed(f"sent a message to {message.dest!r}, which does not exist: {quoted(line)}. Send only to "
                            f"the nodes {', '.join(self.ids)}, to clients that asked, and to "
                            f"{', '.join(services.MAKE)}")  # fmt: skip

    def _long(self, node: Node, line: bytes) -> None:
        self.fail(node.id, f"printed more than {LONGEST_LINE // 2**20} MiB to stdout without a line break: "
                  f"{quoted(line[:200])}. {RULE}")  # fmt: skip

    def _arrive(self, message: Message, by: str) -> None:
        self._in_flight -= 1
        self._deliver(message, by)
        if self._held:
            self._hold(self._in_flight > HOLD_AT // 2)

    def _deliver(self, message: Message, by: str) -> None:
        """A message is due."""
        if self.trouble is not None or not self.network.passes(by, message.dest):
            return
        if message.dest in self._services:
            self._serve(message)
        elif message.dest in self._clients:
            self._clients[message.dest](message)
        else:
            self._hand(self.nodes[message.dest], message, by)

    def _serve(self, message: Message) -> None:
        body = services.answer(self._services[message.dest], message.src, message.body, self.loop.now())
        if message.body.get("msg_id") is not None:
            body = {**body, "in_reply_to": message.body["msg_id"]}
        self.send(Message(message.dest, message.src, body), message.dest)

    def _hand(self, node: Node, message: Message, by: str) -> None:
        child = node.child
        if child is not None and node.wanted and child.write(message.line()):
            return
        self.network.traffic.undelivered += 1
        if child is not None and not child.over and node.wanted and not node.paused:
            self._fail("flood", node.id, f"does not read its stdin as fast as messages come: {MOST_WAITING:,} wait, "
                       f"the last from {by}, of type {message.type!r}. Check whether it hangs. {STORM}")  # fmt: skip

    def _tell(self, node: Node, body: Body) -> None:
        """Ask a node something on the harness's own account; its answers are `_initialized`."""
        node.asked += 1
        self._hand(node, Message(HARNESS, node.id, {**body, "msg_id": node.asked}), HARNESS)

    def _initialized(self, message: Message) -> None:
        """A node answered the harness."""
        node, body = self.nodes[message.src], message.body
        if node.greeted:  # whatever it says to topology: a program may do without
            node.ready = node.ready or body.get("in_reply_to") == node.asked
        elif body.get("type") == "error":
            self.fail(node.id, f"answered init with error {error_name(body.get('code', -1))}: {body.get('text', '')}")
        elif body.get("type") != "init_ok" or body.get("in_reply_to") is None:
            self.fail(node.id, f"answered init with {quoted(message.line().strip())}. Answer with a body of type "
                      "'init_ok' and the request's msg_id as in_reply_to")  # fmt: skip
        elif body["in_reply_to"] == node.asked:
            node.greeted = True
            node.ready = self._topology is None
            if self._topology is not None:
                self._tell(node, {"type": "topology", "topology": dict(self._topology)})

    def _ended(self, node: Node, status: int | OSError) -> None:
        """Nothing is left of a node's processes."""
        node.child = None
        was_ready, node.ready = node.greeted, False
        dying, node.dying = node.dying, False
        if isinstance(status, OSError):
            hint = "; its first line must be `#!` and an interpreter" if status.errno == errno.ENOEXEC else ""
            self._fail("no_command", node.id, f"cannot be started: {self.command[0]}: {status.strerror}{hint}")
        elif node.wanted and dying:  # its next life was asked for before it was gone
            self.start_node(node.id)
        elif node.wanted:
            when = "" if was_ready else " before it answered init"
            self._fail("crash", node.id, f"ended by itself with {status_text(status)}{when}. A node must run until it "
                       f"is killed{_last_words(node.log)}")  # fmt: skip

    def _hold(self, held: bool) -> None:
        if held != self._held:
            self._held = held
            for node in self.nodes.values():
                if node.child is not None:
                    node.child.hold(held)

    def _fail(self, kind: str, node: str, words: str) -> None:
        if self.trouble is None:
            self.trouble = Trouble(kind, f"{node} {words}.", node)


STORM = "If each message causes more than one other, their number grows without end"


def _last_words(log: Log) -> str:
    """The last line that a node wrote to stderr: what a traceback is read for first."""
    lines = [line.strip() for line in log.text().splitlines() if line.strip()]
    return f". Its stderr ends with {quoted(lines[-1])}" if lines else ""
