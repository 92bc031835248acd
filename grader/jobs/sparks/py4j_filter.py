"""What stands between a learner's driver and the JVM: it passes on what PySpark asks, and refuses what reaches further.

A driver knows this filter's port and token, not the JVM's. Every order that a driver gives, Py4J's protocol spells out
line by line: what class, what method. Refused, in words that the learner reads, are classes outside Spark's and the
plain collections, and methods with which Spark's own measurements could be made up, or the session ended.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import threading
from collections.abc import Callable

from py4j.finalizer import ThreadSafeFinalizer

from grader.sandbox import supervise

CLASSES = ("org.apache.spark.", "java.util.", "java.lang.", "java.math.", "java.sql.", "scala.", "py4j.reflection.")
NOT_THESE = ("java.lang.Runtime", "java.lang.System", "java.lang.Process", "java.lang.Thread", "java.lang.Class",
             "java.lang.reflect", "java.lang.invoke", "java.lang.Shutdown", "java.util.ServiceLoader", "java.util.zip",
             "java.util.jar", "java.util.logging", "org.apache.spark.scheduler", "org.apache.spark.SparkEnv",
             "org.apache.spark.deploy", "org.apache.spark.status", "scala.io", "scala.sys", "scala.reflect",
             "scala.tools")  # fmt: skip
SESSION = ("stop", "close", "cancelAllJobs")  # of the session, which is lent under many names
METHODS = ("getClass", "listenerBus", "statusStore", "statusTracker", "eventLogger", "addSparkListener",
           "removeSparkListener", "dagScheduler", "taskScheduler", "schedulerBackend", "addJar", "exit", "halt", "exec",
           "forName", "invoke", "postToAll", "shutdown", "appStatusStore", "sharedState", "env")  # fmt: skip
_LINE = 2**26  # bytes: a longer order is none of PySpark's


def refusal(order: list[str]) -> str:
    """Why an order (the protocol's lines) is not passed on; empty if it is."""
    kind = order[0]
    if kind == "s":
        return "it must not shut down the JVM"
    if kind == "i" and len(order) > 1:
        return _of_class(order[1])
    if kind == "r" and len(order) > 2:
        if order[1] == "m":
            return _of_class(order[2]) or _of_method(order[3] if len(order) > 3 else "")
        return _of_class(order[2]) if any(order[2].startswith(name) for name in NOT_THESE) else ""
    if kind == "c" and len(order) > 2:
        target, method = order[1], order[2]
        if target.startswith("z:") and (why := _of_class(target[2:])):
            return why
        if method in SESSION:
            return f"it must not call {method}() on the session that it was lent"
        return _of_method(method)
    if kind == "f" and len(order) > 3:
        return _of_method(order[3])
    return ""


def _of_class(name: str) -> str:
    if name.startswith(CLASSES) and not name.startswith(NOT_THESE):
        return ""
    return f"it must not use {name}"


def _of_method(name: str) -> str:
    return f"it must not use {name}" if name in METHODS else ""


class Filter:
    """Listens for drivers, in a process of its own. `told` gets a line for each order that was refused."""

    def __init__(self, jvm_port: int, secret: str, token: str, told: Callable[[str], None]) -> None:
        self._jvm, self._secret, self._token, self._told = jvm_port, secret, token, told
        self._listening = socket.socket()
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(16)
        self.port: int = self._listening.getsockname()[1]

    def serve(self) -> None:
        """Until the process ends."""
        while True:
            driver, _ = self._listening.accept()
            threading.Thread(target=self._pass_on, args=(driver,), daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _pass_on(self, driver: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), driver, driver.makefile("rb") as orders:
            first = [orders.readline(_LINE) for _ in range(2)]
            if first[0] != b"A\n" or first[1].strip().decode() != self._token:
                return
            with socket.create_connection(("127.0.0.1", self._jvm)) as jvm:
                for end in (driver, jvm):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                jvm.sendall(b"A\n" + self._secret.encode() + b"\n")
                threading.Thread(target=self._answers, args=(jvm, driver), daemon=True).start()
                while order := self._next(orders):
                    lines = [line.rstrip(b"\n").decode(errors="replace") for line in order]
                    why = "" if lines[0].startswith("!") else refusal(lines)
                    if why:
                        self._told(why)
                        driver.sendall(b"!xs" + why.encode() + b"\n")
                    else:
                        jvm.sendall(b"".join(order))

    @staticmethod
    def _next(orders: object) -> list[bytes]:
        """The lines of the next order; of a callback's answer there is one. Empty at the end."""
        lines: list[bytes] = []
        while line := orders.readline(_LINE):  # type: ignore[attr-defined]
            lines.append(line)
            if not line.endswith(b"\n"):
                return []
            if line == b"e\n" or (len(lines) == 1 and line.startswith(b"!")):
                return lines
        return []

    @staticmethod
    def _answers(jvm: socket.socket, driver: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := jvm.recv(2**16):
                driver.sendall(data)
            driver.shutdown(socket.SHUT_WR)


def fork(jvm_port: int, secret: str, token: str, refused: int) -> tuple[int, int]:
    """Filter in a new process, which writes what it refused to the descriptor. Returns its id and its port."""

    def told(why: str) -> None:
        os.write(refused, why.encode() + b"\n")

    filtering = Filter(jvm_port, secret, token, told)

    def act() -> None:
        let_go()
        filtering.serve()

    pid = supervise.fork(act)
    filtering.close()
    return pid, filtering.port


def let_go() -> None:
    """In a fork: leave the supervisor's objects to the supervisor. Python would tell the JVM, on the supervisor's own
    socket, to forget those that it collects here."""
    ThreadSafeFinalizer.clear_finalizers(True)
    gc.freeze()
