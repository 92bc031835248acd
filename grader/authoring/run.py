"""One case of one check, for who looks for a mistake: as it is graded, or here, in this process, under a debugger.

Only ranks run here: all of them are simulated in this process, a thread each, one at a time and in no box, so that
breakpoint() in the file stops there. What judges is forked off before, as nothing may be shared with clocks that tell
virtual time. Nodes, jobs, Spark and Ray are processes of their own: they do not run here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader import grading, registry, submission
from grader.exercise import Exercise, Grading
from grader.lost import Lost, Unable
from grader.ranks.engines import Engines
from grader.ranks.faults import Fault
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Call, Limits, Program, Run
from grader.ranks.simulated import SimWorld
from grader.sandbox import frames, packets, usage, warm
from grader.sandbox.first import NOTE
from grader.sandbox.warm import Box, BoxFailed
from grader.submission import BadRequest, Submission
from grader.verdict import Verdict
from grader.worlds.ranks import Crashes, RankBench, Ranks

DAYS = 1e6  # seconds
PATIENT = Limits(DAYS, DAYS, DAYS, DAYS, DAYS, 2**40, 2**40)


def chosen(name: str, check: str, label: str, seed: int) -> Exercise:
    """The exercise with that check alone, and with a label with the cases alone that are so called. Raises
    BadRequest."""
    found = grading.only(registry.find(name), check) if check else registry.find(name)
    if not label:
        return found
    world = found.world
    if not isinstance(world, Ranks):
        raise BadRequest(f"{name} does not run on ranks, and so has no cases: leave --case out")
    labels = list(dict.fromkeys(case.label for case in world.drawn(seed)))
    if label not in labels:
        raise BadRequest(f"{name} has no case called {label!r}; with seed {seed} there are: {'; '.join(labels)}")
    draw = world.cases
    return replace(
        found, world=replace(world, cases=lambda drawn: [case for case in draw(drawn) if case.label == label])
    )


def graded(exercise: Exercise, file: Path, seed: int) -> Verdict:
    """The verdict, as for `rankup grade`."""
    with Engines() as engines:
        return grading.grade(exercise, submission.read(file, exercise.function_names), engines, seed)


def here(exercise: Exercise, file: Path, seed: int) -> int:
    """Make the calls of the exercise's checks in this process, and print what they say. Returns whether one lost."""
    world = exercise.world
    if not isinstance(world, Ranks) or isinstance(world, Crashes):
        raise BadRequest(f"{exercise.name} cannot run here: its programs are separate processes; leave --here out")
    read = submission.read(file, exercise.function_names)
    if read.broken:
        raise BadRequest(read.broken.message)
    # under the name that a debugger knows the file by; the cells of a notebook are in no file
    handed_in = Submission(read.source, str(file.resolve()) if file.suffix == ".py" else f"<{file.name}>")
    mine, theirs = socket.socketpair()
    note = warm.note()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        mine.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for what runs
        status = 1
        try:
            status = _judge(exercise, Grading(handed_in, _Here(theirs, note), seed, "sim"))  # type: ignore[arg-type]
        finally:
            sys.stdout.flush()
            os._exit(status)
    theirs.close()
    _serve(mine, note)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _judge(exercise: Exercise, asked: Grading) -> int:
    lost = False
    bench = exercise.world.open(asked)
    assert isinstance(bench, RankBench)
    for check in exercise.checks:
        try:
            check.judge(bench)
            said = "passes"
        except Lost as error:
            where = f" (line {error.diagnosis.line})" if error.diagnosis.line else ""
            said, lost = f"{error.diagnosis.kind}: {error.diagnosis.message}{where}", True
        except Unable:
            said = "not judged by what ran here: leave --here out"
        except BoxFailed as error:
            said = f"not judged: {error}"
        print(f"{check.name}: {said}", flush=True)
    return int(lost)


class _Here:
    """The machine for ranks: its one process is the other end of a socket, and it is given all the time it wants."""

    def __init__(self, end: socket.socket, note: int) -> None:
        self._keeper, self._silent = packets.pair()
        (out, self._out), (err, self._err) = os.pipe(), os.pipe()  # nobody writes there: what is printed is seen
        self._box = Box(self._keeper, [end], [out], [err], [note], cpu=[0.0], delayed=[0.0])
        self._ended = False

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        yield None

    def close(self) -> None:
        pass

    def run(
        self, engine: str, program: Program, ranks: int, calls: Sequence[Call], seed: int, limits: Limits,
        network: Network = ROUNDS, session: Any = None, faults: Sequence[Fault] = (),
    ) -> Run:  # fmt: skip
        if self._ended:
            raise BoxFailed("an earlier run did not finish; choose one case with --case")
        processor = usage.processors()[0]
        world = SimWorld(self._box, program, ranks, seed, PATIENT, network, faults, True, processor)
        run = world.live(calls)
        self._ended = not run.finished
        return run


class _Channel(frames.Channel):
    """Knows when nobody asks any more."""

    over = False

    def next(self) -> frames.Message | None:
        found = super().next()
        self.over = found is None
        return found


def _serve(end: socket.socket, note: int) -> None:
    """Be the process in which ranks are simulated, until nobody asks any more."""
    os.dup2(note, NOTE)
    from grader.ranks.recorder import Recorder
    from grader.ranks.sim import serve

    channel, out = _Channel(end), sys.stdout
    say = Recorder(end).message

    def tell(header: dict[str, Any], blob: bytes = b"") -> None:
        if header.get("event") == "printed":
            if not channel.over:  # what waits for ever is unwound at the end, and has nothing more to say
                out.write(header["text"])
                out.flush()
        else:
            with contextlib.suppress(OSError):
                say(header, blob)

    first = channel.next()
    start = first.header if first else None
    try:
        while start is not None:
            start = serve.world(start, channel, tell)
    finally:
        sys.stdout = out
        end.close()
