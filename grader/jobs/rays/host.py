"""Who is first in Ray's box: forks Ray's workers and the drivers, and passes on what they say. Never loads the code of
a learner, and never starts a thread: all that it forks has Ray imported.

Takes from the grading process
  {"do": "driver", "source", "file", "functions", "harness", "imported"}     a new driver, which tells as it goes
  {"do": "call", ...}                                   to be passed on to the driver
  {"do": "answer", "to": number, "answer": value}       to who waits at the rendezvous
  {"do": "kill", "pid"}                                 one of Ray's workers
  {"do": "ask", "ask": "tasks" | "actors"}              Ray's tables, from the observer
  {"do": "end"}                                         the driver and every worker are to go
and tells {"event": ...}: "up", "driver" (its message within), "said" (number, pid, role, what), "answer", "gone",
"ended".
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from grader.jobs.rays import absent, driver, environments, ids, observer, rendezvous
from grader.jobs.rays.sweep import found, sweep
from grader.sandbox import frames, supervise

LAUNCH = "RANKUP_LAUNCH"  # the environment variable that says to whom `launch` goes
SHARED = Path("/dev/shm")
LAUNCHERS = ("--language=", environments.PREFIX)  # arguments that are not for the worker itself
LOOK_SECONDS = 0.005  # between two looks whether who was killed has gone


def serve(start: dict[str, Any], channel: frames.Channel) -> int:
    """Be the supervisor. Returns an exit status."""
    try:
        _Supervisor(start, channel).live()
    except Exception as error:
        traceback.print_exc()
        channel.post({"event": "failed", "text": f"{type(error).__name__}: {error}"})
        channel.next()
    return 0


class _Supervisor:
    def __init__(self, start: dict[str, Any], channel: frames.Channel) -> None:
        self._grading, self._start = channel, start
        self._here = Path.cwd()
        self._watch = selectors.DefaultSelector()
        self._workers: set[int] = set()
        self._driver: tuple[int, frames.Channel] | None = None
        self._visitors: dict[int, frames.Channel] = {}
        self._said = 0
        os.environ.update(
            observer.ENVIRONMENT, RAY_AUTH_TOKEN=os.urandom(20).hex(), RAY_RAYLET_PID=str(os.getpid())
        )  # fmt: skip
        absent.give_way()
        importlib.import_module("ray")  # reads the environment once, here, for all that is forked
        ids.leave_the_generator_alone()
        births, entry = self._listen("births", LAUNCH), self._listen("rendezvous", rendezvous.PATH)
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        for source, act in (
            (self._grading.end, self._asked), (births, lambda: self._born(births)),
            (entry, lambda: self._entered(entry)), (woken, lambda: self._reap(woken)),
        ):  # fmt: skip
            self._watch.register(source, selectors.EVENT_READ, act)
        self._waker, self._woken = waker, woken

    def _listen(self, name: str, variable: str) -> socket.socket:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(self._here / name))
        listening.listen(64)
        os.environ[variable] = str(self._here / name)
        return listening

    def live(self) -> None:
        """Start Ray, then do what is asked, until nobody asks."""
        self._observer = self._fork_observer()
        up = self._observed()
        self._ours = {*up["pids"], os.getpid()}
        self._raylet, self._address = up["raylet"], up["address"]
        self._kept = found(self._here)
        self._grading.post({"event": "up"})
        self._living = True
        while self._living:
            self._turn()

    def _turn(self) -> list[Any]:
        """Wait until something is due, and do it. Returns whose turn it was."""
        due = []
        for key, _ in self._watch.select():
            # what was done before may have taken what this was due for: to read it now would wait for more
            if any(key == still for still, _ in self._watch.select(0)):
                key.data()
                due.append(key.fileobj)
        return due

    # ---- processes

    def _fork(self, act: Callable[[], Any], kept: Collection[int]) -> int:
        """A process that does that, with these descriptors of ours and no other."""

        def begin() -> int:
            gc.freeze()  # what is garbage by now would close descriptors when it is collected, others' by then
            os.setsid()
            supervise.close_others(kept)
            try:
                act()
            except SystemExit as left:
                return left.code if isinstance(left.code, int) else 0
            finally:
                sys.stdout.flush()
            return 0

        return supervise.fork(begin)

    def _pair(self, act: Callable[[frames.Channel], Any]) -> tuple[int, frames.Channel]:
        """A process that does that, with a socket between us."""
        ours, theirs = socket.socketpair()
        pid = self._fork(lambda: act(frames.Channel(theirs)), {theirs.fileno()})
        theirs.close()
        return pid, frames.Channel(ours)

    def _fork_observer(self) -> frames.Channel:
        plasma = SHARED if os.access(SHARED, os.W_OK) else self._here / "objects"
        plasma.mkdir(exist_ok=True)

        def observe(channel: frames.Channel) -> None:
            observer.observe(self._here, str(plasma), self._start["cpus"], self._start["store_bytes"], channel)

        return self._pair(observe)[1]

    def _observed(self) -> dict[str, Any]:
        """What the observer says next. Workers are born meanwhile: Ray starts with some."""
        channel = self._observer.end
        self._watch.unregister(self._grading.end)  # whoever asks waits for this answer
        self._watch.register(channel, selectors.EVENT_READ, lambda: None)
        try:
            while True:
                if channel in self._turn():
                    messages = self._observer.read()
                    if messages is None:
                        raise ConnectionError("Ray did not start, or is gone")
                    if messages:
                        return messages[0].header
        finally:
            self._watch.unregister(channel)
            self._watch.register(self._grading.end, selectors.EVENT_READ, self._asked)

    def _born(self, births: socket.socket) -> None:
        """Fork a worker, for the raylet's launcher that asks for one."""
        with contextlib.suppress(OSError, ValueError):
            channel, _ = births.accept()
            with channel:
                channel.settimeout(5)
                length = int.from_bytes(channel.recv(4, socket.MSG_WAITALL), "little")
                asked = json.loads(channel.recv(min(length, 2**20), socket.MSG_WAITALL))
                self._workers.add(self._fork(lambda: _work(asked), ()))

    def _reap(self, woken: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            woken.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended[0], os.waitstatus_to_exitcode(ended[1])
                if pid in self._workers:
                    self._workers.discard(pid)
                    self._grading.post({"event": "gone", "pid": pid, "status": status})
                elif self._driver is not None and pid == self._driver[0]:
                    self._drained()
                    self._grading.post({"event": "driver", "status": status})

    # ---- what is said

    def _asked(self) -> None:
        messages = self._grading.read()
        if messages is None:
            self._living = False
            return
        for message in messages:
            asked = message.header
            match asked["do"]:
                case "driver":
                    self._drive(asked)
                case "call" if self._driver is not None:
                    self._driver[1].post(asked, message.blob)
                case "answer" if asked["to"] in self._visitors:
                    self._visitors[asked["to"]].post({"answer": asked["answer"]})
                case "kill":
                    self._kill({asked["pid"]} & self._workers)
                    self._grading.post({"event": "answer", "answer": None})
                case "ask":
                    self._observer.post({"ask": asked["ask"]})
                    self._grading.post({"event": "answer", "answer": self._observed()["answer"]})
                case "end":
                    self._end()

    def _drive(self, asked: dict[str, Any]) -> None:
        """Fork a driver, which has these modules, and all workers from now on."""
        for name in asked["imported"]:
            importlib.import_module(name)
        self._driver = self._pair(lambda channel: driver.drive(channel, asked, self._address))
        self._watch.register(self._driver[1].end, selectors.EVENT_READ, self._driven)

    def _driven(self) -> None:
        """Pass on what the driver says."""
        assert self._driver is not None
        messages = self._driver[1].read()
        if messages is None:
            self._watch.unregister(self._driver[1].end)
        for message in messages or ():
            self._grading.post({"event": "driver", "message": message.header}, message.blob)

    def _drained(self) -> None:
        """Pass on what the driver said before it ended."""
        assert self._driver is not None
        while self._driver[1].end in self._watch.get_map():
            self._driven()

    def _entered(self, entry: socket.socket) -> None:
        channel, _ = entry.accept()
        pid = struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        number, self._said = self._said, self._said + 1
        role = "worker" if pid in self._workers else "other"
        if self._driver is not None and pid == self._driver[0]:
            role = "driver"
        self._visitors[number] = visitor = frames.Channel(channel)

        def heard() -> None:
            messages = visitor.read()
            if messages is None:
                self._watch.unregister(channel)
                self._visitors.pop(number, None)
                channel.close()
            for message in messages or ():
                self._grading.post(
                    {"event": "said", "number": number, "pid": pid, "role": role, "what": message.header}
                )

        self._watch.register(channel, selectors.EVENT_READ, heard)

    # ---- ends

    def _kill(self, pids: Collection[int]) -> None:
        """Kill processes of ours, and go on when they are gone."""
        supervise.send(pids, signal.SIGKILL)
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):
            self._reap(self._woken)
            time.sleep(LOOK_SECONDS)

    def _end(self) -> None:
        """End the driver, all workers, and whatever they have left behind: orphans come to us, and files go."""
        if self._driver is not None:
            self._kill({self._driver[0]})
            self._driver = None
        while strays := {*supervise.children()} - self._ours:
            self._kill(strays)
        sweep(self._here, self._kept)
        self._grading.post({"event": "ended"})


def _work(asked: dict[str, Any]) -> None:
    """Be the worker that the raylet's launcher was to become."""
    os.environ.update({str(name): str(value) for name, value in asked["environment"].items()})
    os.environ.update(environments.variables(asked["argv"]))
    path = next(index for index, each in enumerate(asked["argv"]) if each.endswith(".py"))  # options are before it
    sys.argv = [each for each in asked["argv"][path:] if not each.startswith(LAUNCHERS)]
    runpy.run_path(sys.argv[0], run_name="__main__")
