"""The ways to run ranks, behind one door and on one warm host."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from grader.ranks import WORKER
from grader.ranks.faults import Fault
from grader.ranks.network import ROUNDS, Network
from grader.ranks.processes import Processes
from grader.ranks.program import Call, Limits, Program, Run
from grader.ranks.simulated import NeedsProcesses, Session, Simulator
from grader.sandbox.warm import Warm

MOST_PROCESSES = 16  # larger worlds are simulated only
__all__ = ["MOST_PROCESSES", "Engines", "NeedsProcesses", "Session"]


class Engines:
    """`sim` (simulated ranks, virtual time) and `gloo` (real processes). Safe from any thread; close it."""

    def __init__(self, warm: Warm | None = None) -> None:
        self._warm = warm or Warm(WORKER)
        self.sim = Simulator(self._warm)
        self.gloo = Processes(self._warm)

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
    ) -> Run:
        """One world on the engine of that name. Network and faults are the simulator's; real processes have their own.

        A program that cannot be simulated is run on real processes, where so many ranks are possible; otherwise raises
        NeedsProcesses.
        """
        if engine == "sim":
            try:
                return self.sim.run(program, ranks, calls, seed, limits, network, session, faults)
            except NeedsProcesses:
                if ranks > MOST_PROCESSES or network != ROUNDS or faults:
                    raise
        return self.gloo.run(program, ranks, calls, seed, limits)

    def close(self) -> None:
        self._warm.close()

    def __enter__(self) -> Engines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
