"""One call of a learner's function on every rank of a world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grader.ranks.faults import Fault
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Call, Strided

Key = tuple[int, str, Network, tuple[Fault, ...], int]


@dataclass(frozen=True, eq=False)
class Case:
    """One call that is made on every rank of a world: `arguments[rank]` are rank's positional arguments.

    `function` is the one that is called, the exercise's first if it is empty, and `by` the harness's function that
    calls it, if one does. `engine` and `network` say where it is run if the person who grades does not say otherwise;
    `faults` befall its simulated ranks, and it is run nowhere else.
    `expected` is the check's own, for its judge. `telling` is whether what is special about the exercise shows in it:
    other cases are not compared with real processes.
    `simulated`: what it measures only the simulator tells, and it is run nowhere else.
    `part`: where all cases of one world together take long, those of another part are run in another process, beside.
    """

    group: str
    label: str
    arguments: tuple[tuple[Any, ...], ...]
    function: str = ""
    engine: str = "sim"
    network: Network = ROUNDS
    expected: Any = None
    telling: bool = True
    by: str = ""
    faults: tuple[Fault, ...] = ()
    simulated: bool = False
    part: int = 0

    @property
    def ranks(self) -> int:
        return len(self.arguments)

    @property
    def tensors(self) -> tuple[Strided, ...]:
        """Every rank's first argument."""
        return tuple(arguments[0] for arguments in self.arguments)

    @property
    def world(self) -> Key:
        """Cases with the same world can be called in one run."""
        return self.ranks, self.engine, self.network, self.faults, self.part

    @property
    def call(self) -> Call:
        return Call(self.arguments, self.function, self.by)
