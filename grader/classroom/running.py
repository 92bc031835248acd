"""Run any function on ranks, and tell what happened: `rankup run` and play()."""

from __future__ import annotations

import ast
import os
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from grader import submission
from grader.ranks import WORKER, faults, network
from grader.ranks.engines import ENGINES, MOST_PROCESSES, Engines, Unsupported
from grader.ranks.network import ROUNDS, BadNetwork, Network
from grader.ranks.program import Call, CallResult, Function, Limits, Program, Run
from grader.ranks.simulated import NeedsProcesses
from grader.sandbox.limits import BoxLimits
from grader.sandbox.warm import Warm
from grader.submission import BadRequest, Submission
from grader.trace import diagram, page, perfetto
from grader.trace.events import Trace
from grader.trace.replay import rounds
from grader.verdict import Diagnosis

GIB = 2**30
CPU_SECONDS = 30.0  # of one rank
HOUR = 3600
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

    `network` and `faults` are texts as `grader.ranks.network.parse` and `grader.ranks.faults.parse` take them.
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
            "ranks": self.ranks(),
        }

    def ranks(self) -> list[dict[str, Any]]:
        """Per rank what it sent, its rounds (None: it was never done), and the most it held of tracked tensors.

        Where something was not recorded, bytes are the kernel's count, and what nobody counted is None.
        """
        taken = rounds(self.trace)
        peak = self.call.peak_bytes if self.call else ()
        unseen, counted = bool(self.unseen), self.run.sent or (None,) * self.run.ranks
        return [
            {
                "rank": rank,
                "bytes_sent": counted[rank] if unseen else self.trace.bytes_sent(rank),
                "messages_sent": None if unseen else self.trace.messages_sent(rank),
                "rounds": None if unseen or taken[rank] == float("inf") else taken[rank],
                "peak_bytes": peak[rank] if rank < len(peak) else None,
            }
            for rank in range(self.run.ranks)
        ]

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
        wires = network.parse(wanted.network) if wanted.network else ROUNDS
        befalls = [faults.parse(text, wanted.ranks) for text in wanted.faults]
    except BadNetwork as error:
        raise BadRequest(str(error)) from None
    engine = "sim" if wanted.engine == "auto" else wanted.engine
    if engine != "sim" and (wanted.network or befalls):
        raise BadRequest(f"a network or a fault can only be simulated: use the engine sim, not {engine}")
    if engine == "gloo" and wanted.ranks > MOST_PROCESSES:
        raise BadRequest(f"gloo runs at most {MOST_PROCESSES} ranks here; --engine sim runs {wanted.ranks}")
    program = Program(
        wanted.submission.source, wanted.submission.name, (Function(wanted.function),), own_group=True, watched=True
    )
    seed = random.SystemRandom().randrange(2**31) if wanted.seed is None else wanted.seed
    calls = [Call(wanted.arguments or ((),) * wanted.ranks)]
    try:
        done, engine = _run(engines, engine, program, wanted, calls, seed, wires, befalls)
    except (NeedsProcesses, Unsupported) as error:
        raise BadRequest(str(error)) from None
    found = done.calls[0].diagnoses if done.calls else done.diagnoses
    title = f"{wanted.function} on {wanted.ranks} rank{'s' * (wanted.ranks > 1)}: {done.ending.replace('_', ' ')}"
    times = done.calls[0].finish if done.calls else ()
    unit = "round" if wires == ROUNDS and engine == "sim" and all(time == int(time) for time in times) else ""
    return Ran(done, title, seed, engine, unit, wanted.submission.source, found)


def _with_limit(found: Diagnosis, cpu_seconds: float) -> Diagnosis:
    """With a word on the limit that was passed, if it is one that can be set."""
    if found.kind != "timeout" or "CPU time" not in (found.got or ""):
        return found
    more = f"The limit is {cpu_seconds:g} s of CPU time for each rank; --cpu sets another."
    return replace(found, message=f"{found.message} {more}")


def _run(
    engines: Engines, engine: str, program: Program, wanted: Wanted, calls: Sequence[Call], seed: int, wires: Network,
    befalls: Sequence[faults.Fault],
) -> tuple[Run, str]:  # fmt: skip
    """The run, and the engine it came to."""
    try:
        done = engines.run(
            engine, program, wanted.ranks, calls, seed, wanted.limits, wires, faults=befalls, strictly=True
        )
    except NeedsProcesses as error:
        if wanted.engine != "auto" or wanted.network or befalls or wanted.ranks > MOST_PROCESSES:
            raise NeedsProcesses(f"{program.file} cannot be simulated: {error}") from None
        engine = "gloo"
        done = engines.run(engine, program, wanted.ranks, calls, seed, wanted.limits)
    return done, engine


def run_file(
    what: str, ranks: int, engine: str, wires: str, befalls: tuple[str, ...], seed: int | None, warm: Warm | None,
    cpu_seconds: float = CPU_SECONDS,
) -> Ran:  # fmt: skip
    """Run FILE or FILE:FUNCTION. `warm` is a host that somebody has started already; it is closed at the end."""
    name, _, function = what.rpartition(":") if not Path(what).exists() else (what, "", "")
    path = Path(name or what)
    handed_in = submission.read(path, [function or "main"])
    if handed_in.broken is not None:
        raise BadRequest(handed_in.broken.message.rstrip("."))
    called = function_of(handed_in, function or None)
    with warm or Warm(WORKER) as host:
        allowed = limited(cpu_seconds, ranks)
        ran = run(Engines(host), Wanted(handed_in, called, ranks, None, engine, wires, befalls, seed, allowed))
    return replace(ran, diagnoses=tuple(_with_limit(each, cpu_seconds) for each in ran.diagnoses))


def function_of(handed_in: Submission, name: str | None) -> str:
    """The function to call: the one called `name`, or else the file's main(), or else its only one.

    Raises BadRequest if there is none, or if it cannot be called without arguments.
    """
    try:
        tree = ast.parse(handed_in.source)
    except (SyntaxError, ValueError, RecursionError):
        return name or "main"  # the run says what is wrong with the text
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name is None:
        free = [found for found, node in defined.items() if not _required(node)]
        name = "main" if "main" in defined else free[0] if len(free) == 1 else None
        if name is None:
            which = f"choose from {', '.join(free)}" if free else "none in the file can be called without arguments"
            raise BadRequest(f"say which function to run, as {handed_in.name}:FUNCTION; {which}")
    node = defined.get(name)
    if node is not None and _required(node):
        raise BadRequest(
            f"{name}({', '.join(_required(node))}) takes arguments; write a function without arguments that calls "
            f"{name}, and run that function"
        )
    return name


def _required(node: ast.FunctionDef) -> list[str]:
    """The names of a function's parameters that have no default."""
    plain = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    keyword = [arg.arg for arg, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value is None]
    return plain[: len(plain) - len(node.args.defaults)] + keyword


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all. Raises BadRequest."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise BadRequest(f"{path}: cannot be written ({error.strerror})") from None
