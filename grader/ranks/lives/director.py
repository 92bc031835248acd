"""Who knows what a program is tried with, and who makes its lives, are two processes.

A fork can read whatever the process that it came from has read: what was saved, say, or files as they were before they
were damaged. So the supervisor, of which every life is a fork, is told of one life at a time, and keeps nothing. The
director, forked from it before there is anything to know, takes the calls, runs the harness, and asks for each life.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import signal
import socket
import traceback
import types
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

from grader.ranks import learner
from grader.ranks.lives.life import Ended, Life, Lives
from grader.ranks.lives.watch import Step
from grader.sandbox import frames

_PR_SET_PDEATHSIG = 1


class Line:
    """One end of the line between the two: a message at a time, each with a value."""

    def __init__(self, channel: socket.socket, names: dict[str, Any]) -> None:
        self.channel, self._names = channel, names
        self._reader = frames.Reader()

    def send(self, what: str, value: Any) -> None:
        tree, blob = frames.encode(value, _leaf)
        self.channel.sendall(frames.pack_message({"what": what, "value": tree}, blob))

    def receive(self) -> tuple[str, Any] | None:
        """What the other one sent; None when it is gone."""
        while data := self.channel.recv(2**20):
            for message in self._reader.feed(data):
                assert isinstance(message, frames.Message)
                return message.header["what"], frames.decode(message.header["value"], message.blob, self._leaf_of)
        return None

    def _leaf_of(self, told: dict[str, Any], data: bytes) -> Any:
        if told["kind"] == "path":
            return Path(told["path"])
        if told["kind"] == "bytes":
            return data
        if told["kind"] == "tensor":
            return learner.tensor(told["tensor"], data)
        code = marshal.loads(data)
        cells = frames.decode(told["cells"], bytes.fromhex(told["bytes"]), self._leaf_of)
        return types.FunctionType(code, self._names, code.co_name, None, tuple(map(types.CellType, cells)))


def _leaf(value: Any) -> tuple[dict[str, Any], bytes] | None:
    """Of a path, bytes, a tensor, or a function of the harness with what it closes over."""
    if isinstance(value, Path):
        return {"kind": "path", "path": str(value)}, b""
    if isinstance(value, bytes):
        return {"kind": "bytes"}, value
    if isinstance(value, types.FunctionType):
        cells, blob = frames.encode([cell.cell_contents for cell in value.__closure__ or ()], _leaf)
        return {"kind": "function", "cells": cells, "bytes": blob.hex()}, marshal.dumps(value.__code__)
    tensor = learner.tensor_bytes(value)
    return tensor and ({"kind": "tensor", "tensor": tensor[0]}, tensor[1])


class Asked:
    """Lives as the director has them: made by the supervisor."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def run(
        self, act: Callable[..., Any], *arguments: Any, strike: Callable[[Step], bool] | None = None, **how: Any
    ) -> Life:
        """As `Lives.run`. RuntimeError: the supervisor could not make this life."""
        self._line.send("run", [act, list(arguments), how, strike is not None])
        while (answer := self._line.receive()) is not None:
            what, value = answer
            if what == "step":
                assert strike is not None
                self._line.send("strike", strike(Step(*value)))
            elif what == "life":
                processes, steps, *others = value
                return Life([Ended(*each) for each in processes], [Step(*each) for each in steps], *others)
            else:
                raise RuntimeError(value)
        raise RuntimeError("the supervisor of lives is gone")


def directed(made: Lives, names: dict[str, Any], direct: Callable[[Any], int]) -> int:
    """Have `direct` called with lives, in a process of its own; `names` is what the harness's functions see. Its exit
    status, when it is gone."""
    ours, theirs = socket.socketpair()
    director = os.fork()
    if director == 0:
        status = 70
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            ours.close()
            status = direct(Asked(Line(theirs, names)))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    theirs.close()
    made.spared.add(director)
    line = Line(ours, names)
    while _one_life(made, line):
        pass
    return os.waitstatus_to_exitcode(os.waitpid(director, 0)[1])


def _one_life(made: Lives, line: Line) -> bool:
    """Make the life that is asked for next; False when nobody asks any more. Nothing of it is kept."""
    asked = line.receive()
    if asked is None:
        return False
    act, arguments, how, strikes = asked[1]
    if how.get("kill"):
        how["kill"] = tuple(how["kill"])

    def strike(step: Step) -> bool:
        line.send("step", list(astuple(step)))
        answer = line.receive()
        return bool(answer and answer[1])

    try:
        life = made.run(act, *arguments, strike=strike if strikes else None, **how)
    except Exception as error:
        line.send("failed", f"{type(error).__name__}: {error}")
        return True
    steps = [list(astuple(step)) for step in life.steps]
    processes = [[each.rank, each.said, each.blob] for each in life.processes]
    line.send("life", [processes, steps, life.killed, life.after_a_power_cut, life.at_the_gate])
    return True
