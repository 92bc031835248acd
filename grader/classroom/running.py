"""Run any function on ranks, and tell what happened: `rankup run` and play()."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from grader.classroom.output import MOST_BYTES, Output
from grader.classroom.programs import Named
from grader.ranks import faults, machine, network
from grader.ranks.blame.limits import REASONS
from grader.ranks.engines import ENGINES, MOST_PROCESSES, Engines, Unsupported
from grader.ranks.network import ROUNDS, BadNetwork, Network
from grader.ranks.program import Call, CallResult, Function, Limits, Place, Program, Run
from grader.ranks.simulated import NeedsProcesses
from grader.sandbox.folder import NotShown
from grader.sandbox.limits import BoxLimits
from grader.sandbox.program import MAIN
from grader.says import counted
from grader.submission import BadRequest, Submission
from grader.trace import diagram, page, perfetto
from grader.trace.events import Trace
from grader.trace.replay import rounds
from grader.verdict import Diagnosis

GIB = 2**30
CPU_SECONDS = 30.0  # of one rank
HOUR = 3600
# exceptions that a program may owe to its box
OF_A_BOX = ("EOFError", "FileNotFoundError", "ModuleNotFoundError", "NotADirectoryError", "gaierror", "URLError",
            "OSError", "ConnectionError", "ConnectionRefusedError")  # fmt: skip
# what has torch import all of torch._dynamo when it is first used, which takes each rank a second
USES_DYNAMO = re.compile(
    r"\boptim\b|\bnn\.parallel\b|\bdistributed\.(fsdp|tensor|pipelining|checkpoint|_composable)\b|\bfunctional_collectives\b"
)
UNSEEN_BYTES = 2**16  # of a rank: what gloo and its store send on top of what is recorded is less


def limited(cpu_seconds: float = CPU_SECONDS, ranks: int = 1) -> Limits:
    """What a run may take where each of so many ranks may compute for so long."""
    every = cpu_seconds * ranks
    return Limits(
        cpu_seconds=cpu_seconds,
        load_cpu_seconds=cpu_seconds,
        idle_seconds=max(60, cpu_seconds),
        silent_seconds=max(120, 4 * cpu_seconds),
        wall_seconds=max(HOUR, 4 * every),
        frame_bytes=4 * GIB,
        box=BoxLimits(
            memory_bytes=8 * GIB, processes=2000, disk_bytes=2 * GIB, inodes=2**16, file_bytes=2 * GIB,
            cpu_seconds=max(HOUR, round(2 * every)),
        ),
    )  # fmt: skip


LIMITS = limited()
MOST_RANKS = 16384
PICTURES = (".svg", ".html", ".json")


@dataclass(frozen=True)
class Wanted:
    """What is to be run: a function of a submission, on how many ranks, with which arguments, and where.

    `network`, `faults` and `machine` are texts as the functions `parse` of these modules of `grader.ranks` take them; a
    machine has its own network, unless one is named. `place` is that of a program of the user's own, `called` what its
    title says, `output` what hears it.
    """

    submission: Submission
    function: str
    ranks: int
    arguments: tuple[tuple[Any, ...], ...] | None = None
    engine: str = "auto"
    network: str = ""
    faults: tuple[str, ...] = ()
    seed: int | None = None
    limits: Limits = LIMITS
    place: Place | None = None
    called: str = ""
    output: Output | None = None
    machine: str = ""

    @property
    def virtual(self) -> bool:
        """Whether it asks for something that only simulated ranks have."""
        return bool(self.machine or self.network or self.faults)


@dataclass(frozen=True)
class Ran:
    """A run, and the engine that it happened on; `unit` is that of its virtual times."""

    run: Run
    title: str
    seed: int
    engine: str
    unit: str
    source: str
    diagnoses: tuple[Diagnosis, ...]

    @property
    def call(self) -> CallResult | None:
        return self.run.calls[0] if self.run.calls else None

    @property
    def trace(self) -> Trace:
        return self.call.trace if self.call else self.run.trace

    @property
    def virtual_seconds(self) -> float | None:
        """When the last rank was done, in virtual time; None on real processes and where a rank never was."""
        return max(self.call.finish, default=None) if self.call else None

    @property
    def unseen(self) -> str:
        """What communicated without being recorded; "" where every message and collective was."""
        recorded = sum(self.trace.bytes_sent(rank) for rank in range(self.run.ranks))
        more = sum(self.run.sent) > 2 * recorded + UNSEEN_BYTES * self.run.ranks
        return self.run.unseen or ("what its libraries call in C++" if more else "")

    @property
    def well(self) -> bool:
        return self.run.finished and not self.diagnoses

    def to_json(self) -> dict[str, Any]:
        """The run as `rankup run --json` prints it."""
        return {
            "ending": self.run.ending,
            "diagnoses": [asdict(diagnosis) for diagnosis in self.diagnoses],
            "virtual_seconds": self.virtual_seconds,
            "seed": self.seed,
            "engine": self.engine,
            "unseen": self.unseen,
            "written": list(self.run.written),
            "ranks": self.ranks(),
        }

    def ranks(self) -> list[dict[str, Any]]:
        """Per rank what it sent, its rounds (None: it was never done), and the most it held of tracked tensors.

        Where something was not recorded, bytes are the kernel's count, and what nobody counted is None.
        """
        taken = rounds(self.trace)
        peak = self.call.peak_bytes if self.call else ()
        unseen, kernels = bool(self.unseen), self.run.sent or (None,) * self.run.ranks
        went = self._gone()
        return [
            {
                "rank": rank,
                "bytes_sent": kernels[rank] if unseen else went.bytes_sent(rank),
                "messages_sent": None if unseen else went.messages_sent(rank),
                "rounds": None if unseen or taken[rank] == float("inf") else taken[rank],
                "peak_bytes": peak[rank] if rank < len(peak) else None,
            }
            for rank in range(self.run.ranks)
        ]

    def _gone(self) -> Trace:
        """What was really sent: of a run that ended badly, without what was still under way."""
        if self.run.finished:
            return self.trace
        over = [
            [step for step in steps if step.operation.ended >= 0 or (step.operation.done and not step.operation.failed)]
            for steps in self.trace.steps
        ]
        return Trace(self.trace.ranks, over, groups=self.trace.groups)

    def svg(self) -> str:
        return diagram.svg(self.trace, self.title, "", self.run.cycle, dict(self.run.marks), self.unit)

    def picture(self, suffix: str) -> str:
        """The trace as a drawing (.svg), a page (.html) or a Chrome trace (.json)."""
        marks = dict(self.run.marks)
        if suffix == ".html":
            return page.html(self.trace, self.title, "", self.run.cycle, marks, self.source, self.unit)
        if suffix == ".json":
            return perfetto.chrome_json(self.trace, self.title, self.run.cycle, marks, self.unit)
        return self.svg()


def run(engines: Engines, wanted: Wanted) -> Ran:
    """Run it. Raises BadRequest for what cannot be run."""
    if not 1 <= wanted.ranks <= MOST_RANKS:
        raise BadRequest(f"the number of ranks must be from 1 to {MOST_RANKS}, not {wanted.ranks}")
    if wanted.engine not in ENGINES:
        raise BadRequest(f"no engine is called {wanted.engine!r}; choose from {', '.join(ENGINES)}")
    try:
        on = machine.parse(wanted.machine) if wanted.machine else None
        wires = network.parse(wanted.network) if wanted.network else on.network if on else ROUNDS
        befalls = [faults.parse(text, wanted.ranks) for text in wanted.faults]
    except BadNetwork as error:
        raise BadRequest(str(error)) from None
    engine = "sim" if wanted.engine == "auto" else wanted.engine
    if engine != "sim" and wanted.virtual:
        raise BadRequest(f"a machine, a network or a fault can only be simulated: use the engine sim, not {engine}")
    if engine == "gloo" and wanted.ranks > MOST_PROCESSES:
        raise BadRequest(f"gloo runs at most {MOST_PROCESSES} ranks here; --engine sim runs {wanted.ranks}")
    program = Program(
        wanted.submission.source, wanted.submission.name, (Function(wanted.function),), own_group=True, watched=True,
        place=wanted.place, flops=on.sustained if on else 0.0,
        imported=("torch._dynamo",) if USES_DYNAMO.search(wanted.submission.source) else (),
    )  # fmt: skip
    seed = random.SystemRandom().randrange(2**31) if wanted.seed is None else wanted.seed
    calls = [Call(wanted.arguments or ((),) * wanted.ranks)]
    try:
        done, engine = _run(engines, engine, program, wanted, calls, seed, wires, befalls)
    except (NeedsProcesses, Unsupported) as error:
        raise BadRequest(str(error)) from None
    found = done.calls[0].diagnoses if done.calls else done.diagnoses
    ended = done.ending.replace("_", " ")
    title = f"{wanted.called or wanted.function} on {counted(wanted.ranks, 'rank')}: {ended}"
    times = done.calls[0].finish if done.calls else ()
    unit = "round" if wires == ROUNDS and engine == "sim" and all(time == int(time) for time in times) else ""
    return Ran(done, title, seed, engine, unit, wanted.submission.source, found)


def _run(
    engines: Engines, engine: str, program: Program, wanted: Wanted, calls: Sequence[Call], seed: int, wires: Network,
    befalls: Sequence[faults.Fault],
) -> tuple[Run, str]:  # fmt: skip
    """The run, and the engine it came to."""
    output = wanted.output
    if output is not None:
        engines.heard = output
        output.going_on(f"{wanted.called} on {counted(wanted.ranks, 'rank')}, {engine}")
    try:
        done = engines.run(
            engine, program, wanted.ranks, calls, seed, wanted.limits, wires, faults=befalls, strictly=True
        )
    except NeedsProcesses as error:
        if wanted.engine != "auto" or wanted.virtual or wanted.ranks > MOST_PROCESSES:
            raise NeedsProcesses(f"{program.file} cannot be simulated: {error}") from None
        engine = "gloo"
        if output is not None:
            output.begin_anew(f"{program.file} cannot be simulated: {error}. It starts over on real processes (gloo).")
            output.going_on(f"{wanted.called} on {counted(wanted.ranks, 'rank')}, gloo")
        done = engines.run(engine, program, wanted.ranks, calls, seed, wanted.limits)
    return done, engine


def run_named(
    engines: Engines, program: Named, ranks: int, engine: str = "auto", wires: str = "", befalls: tuple[str, ...] = (),
    seed: int | None = None, cpu_seconds: float = CPU_SECONDS, output: Output | None = None, on: str = "",
) -> Ran:  # fmt: skip
    """Run a program of the user's own. Raises BadRequest for what cannot be run."""
    limits = limited(cpu_seconds, ranks)  # it is the user's own: processes of it may talk, and it may print much
    limits = replace(limits, stdout_bytes=MOST_BYTES, box=replace(limits.box, unix_sockets=True))
    wanted = Wanted(program.submission, program.function, ranks, None, engine, wires, befalls, seed, limits,
                    program.place, program.title, output, on)  # fmt: skip
    try:
        ran = run(engines, wanted)
    except NotShown as why:
        raise BadRequest(f"{why}; RANKUP_SANDBOX=none runs the program there without a sandbox") from None
    box = sees(program, engines.warm.mode)
    return replace(ran, diagnoses=tuple(_of_a_program(each, program, box, cpu_seconds) for each in ran.diagnoses))


def sees(program: Named, mode: str) -> str:
    """What a program has of the machine, as sentences."""
    folder = program.place.folder
    if mode != "full":
        return f"The program runs without a sandbox, in {folder.path if folder else 'an empty folder'}."
    files = f"and {folder.path}" if folder else f"but no other file, because {program.unseen}"
    gone = " What the program writes is gone at the end." if folder else ""
    rest = "The program has no network, and its stdin is empty."
    return f"The sandbox shows the program Python's packages {files}.{gone} {rest}"


def _of_a_program(found: Diagnosis, program: Named, box: str, cpu_seconds: float) -> Diagnosis:
    """What is said of a program that is not graded: with the limits that can be set, and with what its box shows."""
    message, got = found.message.replace(REASONS["denied"], ""), found.got or ""
    if program.function == MAIN:
        message = message.replace("Your code raised", f"{program.submission.name} raised")
    if got in OF_A_BOX or message.endswith(". ") or found.kind == "sandbox_violation":
        message = f"{message.rstrip()} {box}"
    elif found.kind == "timeout" and "CPU time" in got:
        message += f" Each rank may use {cpu_seconds:g} s of CPU time; --cpu sets another limit."
    elif found.kind == "timeout":
        message += " A larger --cpu raises this limit, too."
    return replace(found, message=message)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all. Raises BadRequest."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise BadRequest(f"{path}: cannot be written ({error.strerror})") from None
