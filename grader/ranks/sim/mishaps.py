"""Faults at work in one simulated run: who is killed when, which messages are slow, late, lost or held."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from grader.ranks.faults import Fault, kills

MOST_PAIRS = 64  # of a partition, in a picture


class Mishaps:
    """What the faults of a run say about a rank or a message, asked as the run goes on."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.kills = kills(faults)
        self._slow = [fault for fault in faults if fault.kind == "slow"]
        self._late = [fault for fault in faults if fault.kind == "delay"]
        self._lost = [fault for fault in faults if fault.kind == "drop"]
        self._partitions = [fault for fault in faults if fault.kind == "partition"]
        self._sent: dict[tuple[int, int], int] = defaultdict(int)
        self._computed: dict[int, int] = defaultdict(int)
        self.gone: set[int] = set()  # killed, and their peers see a closed connection

    def begin(self) -> None:
        """A new call begins."""
        self._sent.clear()
        self._computed.clear()
        self.gone.clear()

    def dies_at_operation(self, rank: int, number: int) -> bool:
        """Whether a rank is killed as it begins its operation `number`, counted from 1."""
        fault = self.kills.get(rank)
        return fault is not None and fault.op == number

    def dies_computing(self, rank: int) -> bool:
        """A rank begins a compute() that has a name. Returns whether it is killed in it."""
        self._computed[rank] += 1
        fault = self.kills.get(rank)
        return fault is not None and fault.compute == self._computed[rank]

    def slowness(self, rank: int, peer: int = -1) -> float:
        """How many times as long a rank takes, or a message from it to `peer`."""
        factor = 1.0
        for fault in self._slow:
            if fault.rank == rank and fault.peer in (-1, peer):
                factor *= fault.factor
        return factor

    def slowest(self, ranks: Sequence[int]) -> float:
        """How many times as long a collective of `ranks` takes."""
        members = set(ranks)
        slow = [f.factor for f in self._slow if f.rank in members and (f.peer < 0 or f.peer in members)]
        return max(slow, default=1.0)

    def message(self, source: int, target: int) -> tuple[bool, float]:
        """A message is sent: whether it is lost, and by how many seconds it is late."""
        self._sent[source, target] += 1
        number = self._sent[source, target]

        def befalls(fault: Fault) -> bool:
            return (fault.rank, fault.peer) == (source, target) and fault.op in (0, number)

        lost = any(befalls(fault) for fault in self._lost)
        return lost, sum(fault.seconds for fault in self._late if befalls(fault))

    def lasting(self) -> Iterator[tuple[str, int, int, float, float]]:
        """What befell for a while, for the picture: what, on which rank, from which peer, since and until when."""
        for fault in self._slow:
            yield "slowed", fault.rank, fault.peer, 0.0, math.inf
        for fault in self._partitions:
            left, right = fault.sides
            for rank, peer in itertools.islice(itertools.product(left, right), MOST_PAIRS):
                yield "partitioned", rank, peer, fault.since, fault.until

    def cut_until(self, ranks: Sequence[int], now: float) -> float:
        """When the partitions that separate any of `ranks` at `now` are over; `now` if there is none."""
        until = now
        for _ in range(len(self._partitions) + 1):
            for fault in self._partitions:
                left, right = fault.sides
                apart = any(rank in left for rank in ranks) and any(rank in right for rank in ranks)
                if apart and fault.since <= until < fault.until:
                    until = fault.until
            if until == math.inf:
                break
        return until
