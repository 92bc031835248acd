"""A snapshot of a stream operator with two inputs, of which one is slow; then it dies, and is restored from it.

    alignment("aligned")      waits for the slow input's barrier before it reads on (Flink's default)
    alignment("not aligned")  reads on, and takes its snapshot at the last barrier: at least once
    alignment("unaligned")    takes it at the first barrier, with the records that are still on their way

The operator adds up how often it has seen each record. Chandy and Lamport, *Distributed snapshots*, ACM TOCS 3, 1985;
Carbone and others, *Lightweight asynchronous snapshots for distributed dataflows*, 2015.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from courselib.svg import Plot
from courselib.timeline import Box, timeline

PACE = {"fast": 1.0, "slow": 3.0}  # seconds between two records
BEFORE, RECORDS, LATER = 4, 12, 0.2  # records before the barrier, records of an input, seconds from one to the barrier
WAYS = ("aligned", "not aligned", "unaligned")
KINDS = (
    "counted",
    "counted, not in the snapshot",
    "held back",
    "in the snapshot as it is",
    "barrier",
    "in the snapshot, and replayed",
)

Record = tuple[str, int]


@dataclass(frozen=True)
class Snapshot:
    """What became of it: how often each record counts after the restart, and how many records the snapshot held."""

    way: str
    counts: Counter[Record]
    waited: float  # seconds for which the fast input was held back
    kept: int
    picture: Plot

    @property
    def twice(self) -> int:
        """Records that count more than once."""
        return sum(times > 1 for times in self.counts.values())


def alignment(way: str) -> Snapshot:
    """Read until there is a snapshot, die, restore, and replay all that came after the barriers.

    Raises ValueError for another way.
    """
    if way not in WAYS:
        raise ValueError(f"there is no way {way!r}: {', '.join(WAYS)}")
    arrivals = sorted((number * pace, name, number) for name, pace in PACE.items() for number in range(1, RECORDS + 1))
    barrier = {name: BEFORE * pace + LATER for name, pace in PACE.items()}
    first, last = min(barrier.values()), max(barrier.values())
    taken = first if way == "unaligned" else last
    state: Counter[Record] = Counter()
    on_the_way: list[Record] = []
    rows: dict[str, list[Box]] = {
        f"{name} input": [(time, time + 0.3, "", "barrier")] for name, time in barrier.items()
    }
    for time, name, number in arrivals:
        if time > last:
            break
        after = time > barrier[name]
        if after and way == "aligned":
            kind = KINDS[2]  # not read before the snapshot is there
        elif time <= taken:
            state[name, number] += 1
            kind = KINDS[5] if after else KINDS[0]
        elif not after:
            on_the_way.append((name, number))
            kind = KINDS[3]
        else:
            kind = KINDS[1]
        rows[f"{name} input"].append((time - 0.4, time + 0.1, str(number), kind))
    # the crash: state is gone, the snapshot is not; sources begin again after their barriers
    restored = state + Counter(on_the_way)
    restored.update((name, number) for _, name, number in arrivals if number > BEFORE)
    rows["snapshot"] = [(taken, taken + 0.3, "", "barrier")]
    picture = timeline(f"{way.capitalize()}: the snapshot is taken at {taken:g} s", rows, until=last + 1, kinds=KINDS)
    return Snapshot(way, restored, round(last - first, 6) if way == "aligned" else 0.0, len(on_the_way), picture)
