"""Servers that are held, asked, killed and ended: real processes, of which each has a place in the order of all things.

Runs in the director, which never loads the program; only `Nurse` is in the servers' processes. Nothing here depends on
the clock: a server is held at a gate, where it loads its checkpoint or where it computes, until it is let go on. A
line, a connection on the loopback, leads from each server to the director: at its end there, a nurse, a thread of ours,
holds and lets go. When a process is done with all that it can do is seen by the kernel: all its threads sleep.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import itertools
import json
import os
import secrets
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

TICK_SECONDS = 0.04
SETTLED_TICKS = 5  # in each of which a process slept: it has done what it can do
STUCK_TICKS = 40  # the same for who should answer: it never will
EXIT_TICKS = 120  # the same for who should end
HOLD_SECONDS = 60.0
ANSWER_SECONDS = 60.0
MOST_BYTES = 2**19  # of an answer
LOAD, STATE, MODEL = "load", "state", "model"  # gates: torch.load, load_state_dict, a call of the model
NUDGE = signal.SIGRTMIN + 3  # to the main thread: where another one caught SIGTERM, it may sleep on a lock through it
MOST_NUDGES = 12
NONSENSE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


class Nurse:
    """Beside the learner's server: holds threads at gates that are shut, and says where they are."""

    def __init__(self, port: int, token: str, rank: int, shut: Sequence[str]) -> None:
        self._shut, self._changed, self.begins = set(shut), threading.Condition(), threading.Event()
        self._line = socket.create_connection(("127.0.0.1", port))
        self._telling = threading.Lock()
        self.tell([token, rank, os.getpid()])
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the learner's threads'
        threading.Thread(target=self._listen, daemon=True).start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def tell(self, value: Any) -> None:
        with self._telling, contextlib.suppress(OSError):
            self._line.sendall(json.dumps(value).encode() + b"\n")

    def _listen(self) -> None:
        for asked in self._line.makefile():
            what, gates = json.loads(asked)
            with self._changed:
                if what == "shut":
                    self._shut |= set(gates)
                    self.tell("shut")
                elif what == "open":
                    self._shut -= set(gates)
                    self._changed.notify_all()
                elif what == "begin":
                    self.begins.set()
                elif what == "nudge":
                    signal.pthread_kill(threading.main_thread().ident or 0, NUDGE)
        os._exit(1)  # the director is gone

    def gate(self, name: str) -> None:
        """Go through a gate, or stand there until it is opened."""
        with self._changed:
            if name == MODEL and name not in self._shut:
                return
            self.tell(name)
            self._changed.wait_for(lambda: name not in self._shut, HOLD_SECONDS)

    def stand(self) -> None:
        """Put the gates where checkpoints are loaded and models compute, under whatever name that is called."""
        from torch import serialization
        from torch.nn.modules import module

        def gated(gate: str, function: Any) -> Any:
            def call(*arguments: Any, **named: Any) -> Any:
                self.gate(gate)
                return function(*arguments, **named)

            return call

        for name in ("_load", "_legacy_load"):
            setattr(serialization, name, gated(LOAD, getattr(serialization, name)))
        torch.nn.Module.load_state_dict = gated(STATE, torch.nn.Module.load_state_dict)
        module.register_module_forward_pre_hook(lambda *_: self.gate(MODEL))


class Stop(Exception):  # noqa: N818 - says what happened
    """The script cannot go on: why, and of which replica."""


class Replica:
    """One process as the director sees it."""

    def __init__(self, rank: int, port: int) -> None:
        self.rank, self.port, self.process = rank, port, 0
        self.line: Any = None
        self.at: collections.Counter[str] = collections.Counter()  # how often it came to each gate
        self.killed, self.nudges = False, 0

    def tell(self, what: str, *gates: str) -> None:
        with contextlib.suppress(OSError):
            self.line.sendall(json.dumps([what, gates]).encode() + b"\n")

    def hear(self) -> None:
        """In a thread: what its nurse says."""
        with contextlib.suppress(OSError, *NONSENSE):
            for said in self.line.makefile():
                self.at[str(json.loads(said))[:20]] += 1

    def _state(self) -> str:
        try:
            return Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return "gone"

    @property
    def gone(self) -> bool:
        return self._state() in ("gone", "Z", "X")

    def nudged(self) -> bool:
        """Whether it is gone; if not its main thread is woken up, the first few times: it may have missed SIGTERM."""
        if self.nudges < MOST_NUDGES:
            self.nudges += 1
            self.tell("nudge")
        return self.gone

    @property
    def sleeps(self) -> bool:
        """Whether no thread of it wants the processor."""
        with contextlib.suppress(OSError):
            stats = [path.read_text() for path in Path(f"/proc/{self.process}/task").glob("*/stat")]
            return not any(stat.rpartition(")")[2].split()[0] in "RD" for stat in stats)
        return True

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            os.kill(self.process, number)


class Stage(threading.Thread):
    """Plays a script with replicas, and keeps what was asked and answered, each with its place in the order of all."""

    def __init__(self, script: Callable[[Stage], None], ports: list[int], bodies: list[str], more: Any) -> None:
        super().__init__()
        self.script, self.bodies, self.more, self.token = script, bodies, more, secrets.token_hex(16)
        self.replicas = [Replica(rank, port) for rank, port in enumerate(ports)]
        self.asks: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.stopped: dict[str, Any] | None = None
        self.over = threading.Event()
        self.reads = threading.Event()  # slow clients begin to read
        self._count, self._counting = itertools.count(), threading.Lock()
        self._open: list[tuple[threading.Thread, Any]] = []
        self.listening = socket.create_server(("127.0.0.1", 0))

    def run(self) -> None:
        try:
            self._meet()
            self.script(self)
        except Stop as stop:
            why, rank = stop.args
            self.stopped = {"why": why, "replica": rank, "at": self.now()}
        except (OSError, *NONSENSE) as error:
            self.stopped = {"why": f"{type(error).__name__}: {error}", "replica": 0, "at": self.now()}
        for replica in self.replicas:
            if replica.process and not replica.gone:
                replica.killed = True
                replica.signal(signal.SIGKILL)
            if replica.line is not None:
                with contextlib.suppress(OSError):
                    replica.line.shutdown(socket.SHUT_RDWR)
        self.reads.set()
        for thread, connection in self._open:
            _cut(connection)
            thread.join()

    def _meet(self) -> None:
        """The lines of these replicas, and of nobody else."""
        while any(replica.line is None for replica in self.replicas):
            if self.over.is_set():
                raise Stop("ended", next(each.rank for each in self.replicas if each.line is None))
            if not select.select([self.listening], [], [], 0.02)[0]:
                continue
            line = self.listening.accept()[0]
            told = b""
            while not told.endswith(b"\n") and len(told) < 200 and (sign := line.recv(1)):
                told += sign
            match json.loads(told):
                case [self.token, int(rank), int(process)] if 0 <= rank < len(self.replicas):
                    replica = self.replicas[rank]
                    if replica.line is None and _parent(process) == os.getppid() and process != os.getpid():
                        replica.line, replica.process = line, process
                        threading.Thread(target=replica.hear, daemon=True).start()

    # -- the order of things

    def now(self) -> int:
        with self._counting:
            return next(self._count)

    def note(self, what: str, replica: Replica) -> None:
        self.events.append({"what": what, "replica": replica.rank, "at": self.now()})

    def wait(self, replica: Replica, over: Callable[[], bool], ticks: int = STUCK_TICKS) -> bool:
        """Until it is over: True. Not where the replica slept at so many looks in a row: then it never will be. One
        that wakes up again and again, and gets nowhere, is looked at ten times as often."""
        asleep = looks = 0
        while not over():
            if asleep >= ticks or looks >= 10 * ticks:
                return False
            time.sleep(TICK_SECONDS)
            asleep, looks = asleep + 1 if replica.sleeps else 0, looks + 1
        return True

    def settle(self, replica: Replica) -> None:
        """Until it has done what it can do."""
        self.wait(replica, lambda: replica.gone, SETTLED_TICKS)

    # -- what is done to replicas

    def begin(self, replica: Replica, *shut: str) -> None:
        if shut:
            self.shut(replica, *shut)
        replica.tell("begin")
        self.note("begins", replica)

    def shut(self, replica: Replica, *gates: str) -> None:
        before = replica.at["shut"]
        replica.tell("shut", *gates)
        self.wait(replica, lambda: replica.at["shut"] > before or replica.gone)

    def open(self, replica: Replica, *gates: str) -> None:
        self.note(f"open {gates[0]}", replica)
        replica.tell("open", *gates)

    def reach(self, replica: Replica, gate: str) -> bool:
        """Whether it comes to a gate, and does there what else it can do."""
        came = self.wait(replica, lambda: replica.at[gate] > 0 or replica.gone, STUCK_TICKS) and not replica.gone
        if came:
            self.settle(replica)
            self.note(f"at {gate}", replica)
        return came

    def kill(self, replica: Replica) -> None:
        self.note("SIGKILL", replica)
        replica.killed = True
        replica.signal(signal.SIGKILL)
        self.wait(replica, lambda: replica.gone, EXIT_TICKS)

    # -- what is asked

    def send(self, replica: Replica, stage: str, path: str, body: int = -1, slow: bool = False) -> dict[str, Any]:
        """A request, GET or, with the number of a body, POST, in a thread: what comes of it. A slow client reads its
        answer when `reads` is set."""
        found = {
            "stage": stage, "replica": replica.rank, "path": path, "body": body, "status": None, "said": "",
            "error": "", "begin": self.now(), "end": None, "left": False,
        }  # fmt: skip
        self.asks.append(found)
        connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=ANSWER_SECONDS)
        thread = threading.Thread(target=self._one, args=(connection, found, slow), daemon=True)
        self._open.append((thread, connection))
        thread.start()
        return found

    def _one(self, connection: http.client.HTTPConnection, found: dict[str, Any], slow: bool) -> None:
        error, status, said = "", None, ""
        try:
            if slow:
                connection.sock = _narrow(connection.port)
            self._request(connection, found["path"], found["body"])
            if slow:
                self.reads.wait(HOLD_SECONDS)
            answer = connection.getresponse()
            said, status = answer.read(MOST_BYTES).decode(errors="replace"), answer.status
        except ConnectionRefusedError:
            error = "refused"
        except (OSError, http.client.HTTPException, *NONSENSE) as wrong:
            error = f"{type(wrong).__name__}: {wrong}"[:200]
        finally:
            connection.close()
        at = self.now()
        with self._counting:
            if not found["left"]:
                found.update(error=error, status=status, said=said, end=at)

    def _request(self, connection: http.client.HTTPConnection, path: str, body: int) -> None:
        headers, data = {"connection": "close"}, None
        if body >= 0:
            headers["content-type"], data = "application/json", self.bodies[body].encode()
        connection.request("GET" if data is None else "POST", path, data, headers)

    def answered(self, replica: Replica, found: dict[str, Any], ticks: int = STUCK_TICKS) -> bool:
        return self.wait(replica, lambda: found["end"] is not None, ticks)

    def ask(self, replica: Replica, stage: str, path: str, body: int = -1) -> dict[str, Any]:
        """The same, and its answer is waited for; one that comes later is none."""
        found = self.send(replica, stage, path, body)
        self.answered(replica, found)
        with self._counting:
            found["left"] = found["end"] is None
        return found

    def again(
        self, replica: Replica, stage: str, path: str, enough: Callable[[dict[str, Any]], bool], ticks: int
    ) -> dict[str, Any]:
        """Asked again and again until the answer is enough, or the replica has slept so often; the last one is kept."""
        asleep = looks = 0
        while True:
            found = self.ask(replica, stage, path)
            if enough(found) or replica.gone or found["end"] is None or asleep >= ticks or looks >= 10 * ticks:
                return found
            self.asks.remove(found)
            time.sleep(TICK_SECONDS)
            asleep, looks = asleep + 1 if replica.sleeps else 0, looks + 1

    def heard(self, replica: Replica, stage: str, path: str) -> dict[str, Any]:
        """The first answer, of whatever status, once it listens."""
        return self.again(replica, stage, path, lambda found: found["error"] != "refused", STUCK_TICKS // 2)

    def ready(self, replica: Replica) -> None:
        """Until /ready says 200. Raises Stop where it never does."""
        found = self.again(replica, "until ready", "/ready", lambda found: found["status"] == 200, STUCK_TICKS)
        if found["status"] != 200:
            raise Stop("ended" if replica.gone else "never ready", replica.rank)

    def flight(self, replica: Replica, bodies: Sequence[int], slow: int = -1) -> list[dict[str, Any]]:
        """Requests that are in the replica's hands, since its model is held; the last one may be a slow client's."""
        before = replica.at[MODEL]
        sent = [self.send(replica, "held", "/predict", body) for body in bodies]
        if slow >= 0:
            sent.append(self.send(replica, "held", "/predict", slow, slow=True))
        self.held(replica, sent, before)
        return sent

    def hang_up(self, replica: Replica, body: int) -> None:
        """A request that the model holds, until its client hangs up: an answer can not be written then."""
        before = replica.at[MODEL]
        connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=ANSWER_SECONDS)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            self._request(connection, "/predict", body)
            self.wait(replica, lambda: replica.at[MODEL] > before or replica.gone, STUCK_TICKS // 2)
            self.settle(replica)
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.note("hung up", replica)

    def held(self, replica: Replica, sent: list[dict[str, Any]], before: int) -> None:
        """Until all of them stand at the model, or one does and the others wait for it, or they are answered."""

        def stands() -> bool:
            answered = sum(found["end"] is not None for found in sent)
            return replica.at[MODEL] - before + answered >= len(sent) or replica.gone

        self.wait(replica, stands, SETTLED_TICKS if replica.at[MODEL] > before else STUCK_TICKS // 2)
        self.settle(replica)
        self.note("held", replica)


def _narrow(port: int) -> socket.socket:
    """A connection in which little is on its way: small segments let the other side keep little to send, too."""
    made = socket.socket()
    made.settimeout(ANSWER_SECONDS)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    with contextlib.suppress(OSError):  # then only answers of some MiB would wait
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    made.connect(("127.0.0.1", port))
    return made


def _cut(connection: http.client.HTTPConnection) -> None:
    with contextlib.suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


def _parent(process: int) -> int:
    with contextlib.suppress(OSError, *NONSENSE):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return -1
