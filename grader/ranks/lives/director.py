"""Who knows what a program is tried with, and who makes its lives, are two processes.

A fork can read whatever the process that it came from has read: what was saved, say, or files as they were before they
were damaged. So the supervisor, of which every life is a fork, is told of one life at a time, and keeps nothing. The
director, forked from it before there is anything to know, takes the calls, runs the harness, and asks for each life.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

from grader.ranks import learner
from grader.ranks.lives.life import Ended, Life, Lives
from grader.ranks.lives.watch import Step, Strike
from grader.sandbox import frames, supervise


class Line:
    """One end of the line between the two: a message at a time, each with a value."""

    def __init__(self, end: socket.socket) -> None:
        self._channel = frames.Channel(end)

    def send(self, what: str, value: Any) -> None:
        tree, blob = frames.encode(value, _leaf)
        self._channel.post({"what": what, "value": tree}, blob)

    def receive(self) -> tuple[str, Any] | None:
        """What the other one sent; None when it is gone."""
        message = self._channel.next()
        if message is None:
            return None
        return message.header["what"], frames.decode(message.header["value"], message.blob, _leaf_of)


def _leaf(value: Any) -> tuple[dict[str, Any], bytes] | None:
    """Of a path, bytes, or a tensor."""
    if isinstance(value, Path):
        return {"kind": "path", "path": str(value)}, b""
    if isinstance(value, bytes):
        return {"kind": "bytes"}, value
    tensor = learner.tensor_bytes(value)
    return tensor and ({"kind": "tensor", "tensor": tensor[0]}, tensor[1])


def _leaf_of(told: dict[str, Any], data: bytes) -> Any:
    if told["kind"] == "path":
        return Path(told["path"])
    return data if told["kind"] == "bytes" else learner.tensor(told["tensor"], data)


class Asked:
    """Lives as the director has them: made by the supervisor. `names` are those of the harness, which both know."""

    def __init__(self, line: Line, names: dict[str, Any]) -> None:
        self._line, self._names = line, names

    def run(
        self, act: Callable[..., Any], *arguments: Any, strike: Callable[[Step], Strike] | None = None, **how: Any
    ) -> Life:
        """As `Lives.run`; `act` is a function of the harness. RuntimeError: the supervisor could not make this life."""
        if self._names.get(act.__name__) is not act:
            raise TypeError(f"a life is given a top-level function of the harness, not {act!r}")
        self._line.send("run", [act.__name__, list(arguments), how, strike is not None])
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
    """Have `direct` called with lives, in a process of its own; `names` are those of the harness. Its exit status, when
    it is gone."""
    ours, theirs = socket.socketpair()

    def act() -> int:
        ours.close()
        return direct(Asked(Line(theirs), names))

    director = supervise.fork(act)
    theirs.close()
    made.spared.add(director)
    line = Line(ours)
    while _one_life(made, line, names):
        pass
    return os.waitstatus_to_exitcode(os.waitpid(director, 0)[1])


def _one_life(made: Lives, line: Line, names: dict[str, Any]) -> bool:
    """Make the life that is asked for next; False when nobody asks any more. Nothing of it is kept."""
    asked = line.receive()
    if asked is None:
        return False
    act, arguments, how, strikes = asked[1]
    if how.get("kill"):
        how["kill"] = tuple(how["kill"])

    def strike(step: Step) -> Strike:
        line.send("step", list(astuple(step)))
        answer = line.receive()
        return answer[1] if answer else False

    try:
        life = made.run(names[act], *arguments, strike=strike if strikes else None, **how)
    except Exception as error:
        line.send("failed", f"{type(error).__name__}: {error}")
        return True
    steps = [list(astuple(step)) for step in life.steps]
    processes = [[each.rank, each.said, each.blob] for each in life.processes]
    line.send("life", [processes, steps, life.killed, life.after_a_power_cut, life.at_the_gate])
    return True
