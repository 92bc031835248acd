"""The ways to run ranks, behind one door and on one warm host."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

from grader.ranks import WORKER
from grader.ranks.faults import Fault
from grader.ranks.network import ROUNDS, Network
from grader.ranks.processes import Processes
from grader.ranks.program import Call, Limits, Program, Run
from grader.ranks.simulated import NeedsProcesses, Session, Simulator
from grader.sandbox.warm import Warm

MOST_PROCESSES = 16  # larger worlds are simulated only
ENGINES = ("auto", "sim", "gloo", "nccl")
__all__ = ["ENGINES", "MOST_PROCESSES", "Engines", "NeedsProcesses", "Session", "Unsupported", "gpus"]


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


def unsupported(engine: str, ranks: int) -> str:
    """Why this machine cannot run a world of so many ranks on an engine; empty if it can."""
    if engine == "gloo" and ranks > MOST_PROCESSES:
        return f"gloo runs at most {MOST_PROCESSES} ranks here, not {ranks}"
    if engine == "nccl" and ranks > gpus():
        has = {0: "none", 1: "one"}.get(gpus(), str(gpus()))
        return f"nccl needs a GPU for each of the {ranks} ranks, and this machine has {has}"
    return ""


class Engines:
    """`sim` (simulated ranks, virtual time), `gloo` (real processes) and `nccl` (real processes with a GPU each).

    Safe from any thread; close it.
    """

    def __init__(self, warm: Warm | None = None) -> None:
        self.warm = warm or Warm(WORKER)
        self.sim = Simulator(self.warm)
        self.gloo = Processes(self.warm)
        self.nccl = Processes(self.warm, "nccl")
        self._lent: dict[type[Lent], Lent] = {}
        self._lending = threading.Lock()

    def run(
        self,
        engine: str,
        program: Program,
        ranks: int,
        calls: Sequence[Call],
        seed: int,
        limits: Limits,
        network: Network = ROUNDS,
        session: Session | None = None,
        faults: Sequence[Fault] = (),
        strictly: bool = False,
    ) -> Run:
        """One world on the engine of that name. Network and faults are the simulator's; real processes have their own.

        A program that cannot be simulated is run on real processes, where so many ranks are possible and not
        `strictly`; otherwise raises NeedsProcesses. Raises Unsupported for what this machine cannot run.
        """
        why = unsupported(engine, ranks)
        if why:
            raise Unsupported(why)
        if engine == "sim":
            try:
                return self.sim.run(program, ranks, calls, seed, limits, network, session, faults)
            except NeedsProcesses:
                if strictly or ranks > MOST_PROCESSES or network != ROUNDS or faults:
                    raise
        processes = self.nccl if engine == "nccl" else self.gloo
        return processes.run(program, ranks, calls, seed, limits)

    def close(self) -> None:
        for one in self._lent.values():
            one.close()
        self.warm.close()

    def lend(self, kind: type[L]) -> L:
        """The one of that kind which these engines have, made when it is first asked for, and closed with them."""
        with self._lending:
            if kind not in self._lent:
                self._lent[kind] = kind(self.warm)
            found = self._lent[kind]
        assert isinstance(found, kind)
        return found

    def __enter__(self) -> Engines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
