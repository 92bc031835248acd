"""The ways to run ranks, behind one door and on one warm host."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

from grader.ranks import WORKER
from grader.ranks.faults import Fault
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Call, Limits, Program, Run
from grader.ranks.simulated import NeedsProcesses, NeedsThreads, Session, SimWorld, folder_of
from grader.ranks.world import RealWorld
from grader.sandbox import LINUX, usage
from grader.sandbox.client import Heard
from grader.sandbox.warm import Unwatched, Warm

MOST_PROCESSES = 16  # larger worlds are simulated only
ENGINES = ("auto", "sim", "gloo", "nccl")
DEFAULT_LIMITS = Limits()
LOOK_AGAIN_SECONDS = 1.0


class Unsupported(Exception):  # noqa: N818 - says what is the case
    """This machine cannot run the engine that was asked for, and why."""


class Lent(Protocol):
    """Something that starts once, on a warm host, and is lent to one grading after another."""

    def __init__(self, warm: Warm) -> None: ...

    def close(self) -> None: ...


L = TypeVar("L", bound=Lent)


def gpus() -> int:
    """How many NVIDIA GPUs this machine has."""
    return sum(device.name.removeprefix("nvidia").isdigit() for device in Path("/dev").glob("nvidia[0-9]*"))


def without_cuda() -> str:
    """Why tensors cannot be on a GPU here; empty if they can."""
    if not gpus():
        return "this machine has no NVIDIA GPU"
    torch = importlib.metadata.version("torch")
    return f"the installed torch ({torch}) was built without CUDA" if torch.endswith("+cpu") else ""


def unsupported(engine: str, ranks: int) -> str:
    """Why this machine cannot run a world of so many ranks on an engine; empty if it can."""
    if engine in ("gloo", "nccl") and not LINUX:
        return f"{engine} runs ranks as real processes, and rankup does that on Linux only"
    if engine == "gloo" and ranks > MOST_PROCESSES:
        return f"gloo runs at most {MOST_PROCESSES} ranks here, not {ranks}"
    if engine == "nccl" and ranks > gpus():
        has = {0: "none", 1: "one"}.get(gpus(), str(gpus()))
        return f"nccl needs a GPU for each of the {ranks} ranks, and this machine has {has}"
    return ""


class Engines:
    """`sim` (simulated ranks, virtual time: the same seed, the same run, on every machine), `gloo` (real processes) and
    `nccl` (real processes with a GPU each), on one warm host.

    `heard` is told what each rank prints, as it comes. Safe from any thread; close it.
    """

    def __init__(self, warm: Warm | None = None, heard: Heard | None = None) -> None:
        self.warm, self.heard = warm or Warm(WORKER), heard
        self._lock = threading.Lock()
        self._simulated = dict.fromkeys(usage.processors(), 0)  # worlds by processor
        self._real = 0  # worlds
        self._idle_machine, self._looked = False, float("-inf")
        self._lent: dict[type[Lent], Lent] = {}
        self._lending = threading.Lock()

    def run(
        self,
        engine: str,
        program: Program,
        ranks: int,
        calls: Sequence[Call],
        seed: int = 0,
        limits: Limits = DEFAULT_LIMITS,
        network: Network = ROUNDS,
        session: Session | None = None,
        faults: Sequence[Fault] = (),
        strictly: bool = False,
        trace: bool = True,
    ) -> Run:
        """Load the program on `ranks` ranks, and make the calls one after another.

        The first call that does not finish ends the run. Virtual time begins anew with each call, and the faults befall
        each; network and faults are the simulator's, real processes have their own. Without `trace` only results are
        kept of simulated ranks. Without a session every process is gone when this returns or raises.

        A program that cannot be simulated is run on real processes, where so many ranks are possible and not
        `strictly`; otherwise raises NeedsProcesses. Raises Unsupported for what this machine cannot run, and BoxFailed
        when no process could be started.

        A run that ended in a way that a busy machine can bring about, too, is made once more, and the second counts.
        """
        why = unsupported(engine, ranks)
        if why:
            raise Unsupported(why)
        once = functools.partial(
            self._run, engine, program, ranks, calls, seed, limits, network, session, tuple(faults), strictly, trace
        )
        try:
            run = once()
        except Unwatched:
            if self.heard is not None or (session is not None and session.interrupted):
                raise
            return once()
        return once() if run.doubtful and self.heard is None else run

    def _run(
        self, engine: str, program: Program, ranks: int, calls: Sequence[Call], seed: int, limits: Limits,
        network: Network, session: Session | None, faults: tuple[Fault, ...], strictly: bool, trace: bool,
    ) -> Run:  # fmt: skip
        if engine == "sim":
            try:
                return self._simulate(program, ranks, calls, seed, limits, network, session, faults, trace)
            except NeedsProcesses:
                if strictly or unsupported("gloo", ranks) or network != ROUNDS or faults:
                    raise
        with self._counted():
            backend = "nccl" if engine == "nccl" else "gloo"
            box = self.warm.box(
                ranks, replace(limits.box, subreaper=program.apart), program.imported, folder_of(program)
            )
            if session is not None:
                session.beside = box
            try:
                world = RealWorld(box, program, ranks, seed, limits, self._idle_machine, backend)
                world.client.printed.heard = self.heard
                return world.live(calls)
            finally:
                if session is not None:
                    session.beside = None
                box.end()

    def _simulate(
        self, program: Program, ranks: int, calls: Sequence[Call], seed: int, limits: Limits, network: Network,
        session: Session | None, faults: tuple[Fault, ...], trace: bool,
    ) -> Run:  # fmt: skip
        if program.apart:
            raise NeedsProcesses("its processes are to be killed")
        with contextlib.nullcontext(session) if session else self.session() as session:
            box = session.box(limits.box, ranks, program.imported, folder_of(program))
            threads = session.threads or self.heard is not None  # who hears what is printed would hear it twice
            try:
                world = SimWorld(box, program, ranks, seed, limits, network, faults, trace, session.processor, threads)
                world.client.printed.heard = self.heard
                run = world.live(calls)
            except NeedsThreads:
                session.dismiss()
                session.threads = True
                return self._simulate(program, ranks, calls, seed, limits, network, session, faults, trace)
            except BaseException:
                session.dismiss()
                raise
            if not run.finished or faults:
                session.dismiss()
            return run

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """A process for several simulated runs of one submission, one after another, as long as each ends well; on the
        processor with the fewest of our worlds."""
        with self._lock:
            processor = min(self._simulated, key=lambda processor: self._simulated[processor])
            self._simulated[processor] += 1
        session = Session(self.warm, processor)
        try:
            yield session
        finally:
            session.dismiss()
            with self._lock:
                self._simulated[processor] -= 1

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Note how busy the machine is while nothing of ours runs on real processes."""
        self.warm.wait_until_ready()
        with self._lock:
            if not self._real and time.monotonic() - self._looked > LOOK_AGAIN_SECONDS:
                self._idle_machine = _busy_processes() <= (os.cpu_count() or 1)
            self._looked = time.monotonic()  # what we ran just now must not count as somebody else's
            self._real += 1
        try:
            yield
        finally:
            with self._lock:
                self._real -= 1

    def lend(self, kind: type[L]) -> L:
        """The one of that kind which these engines have, made when it is first asked for, and closed with them."""
        with self._lending:
            if kind not in self._lent:
                self._lent[kind] = kind(self.warm)
            found = self._lent[kind]
        assert isinstance(found, kind)
        return found

    def close(self) -> None:
        for one in self._lent.values():
            one.close()
        self.warm.close()

    def __enter__(self) -> Engines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _busy_processes() -> int:
    """How many threads want a processor at this moment; many where that cannot be known."""
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/stat") as stat:
        return int(next(line for line in stat if line.startswith("procs_running")).split()[1])
    return 1000
