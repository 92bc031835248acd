"""The mutants that a run of the tests has graded, as a matrix: exercise x mutant x check."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

PROPERTY = "mutant"
CAUGHT, ALSO, KEPT, MISSED, UNASKED = "#", "x", ".", "?", " "
LEGEND = (
    f"{CAUGHT} caught by the check that its heading names, {ALSO} points lost there too, {KEPT} none, blank not graded"
)


@dataclass(frozen=True)
class Row:
    """One mutant: the check and kind that caught it, and of each of the exercise's checks whether it lost points; None
    where it was not graded."""

    exercise: str
    mutant: str
    check: str
    kind: str
    lost: Sequence[tuple[str, bool | None]]

    def to_json(self) -> list[object]:
        return [self.exercise, self.mutant, self.check, self.kind, list(map(list, self.lost))]

    def marks(self) -> Iterator[str]:
        for name, lost in self.lost:
            if lost is None:
                yield UNASKED
            elif name == self.check:
                yield CAUGHT if lost else MISSED
            else:
                yield ALSO if lost else KEPT


def row(told: list[object]) -> Row:
    """What `to_json` gave."""
    exercise, mutant, check, kind, lost = told
    assert isinstance(lost, list)
    return Row(str(exercise), str(mutant), str(check), str(kind), tuple((name, gone) for name, gone in lost))


def lines(rows: Iterable[Row]) -> Iterator[str]:
    """The matrix, one block an exercise: a line a mutant, a column a check."""
    blocks: dict[str, list[Row]] = defaultdict(list)
    for each in rows:
        blocks[each.exercise].append(each)
    for exercise, block in sorted(blocks.items()):
        checks = [name for name, _ in block[0].lost]
        width = max(len(each.mutant) for each in block)
        alone = sum([mark for mark in each.marks() if mark not in (KEPT, UNASKED)] == [CAUGHT] for each in block)
        yield ""
        yield f"{exercise}: {len(block)} mutants, {alone} caught by one check alone"
        yield " " * (width + 2) + " ".join(checks)
        for each in sorted(block, key=lambda each: (checks.index(each.check), each.mutant)):
            cells = (mark.center(len(name)) for mark, name in zip(each.marks(), checks, strict=True))
            yield f"{each.mutant:{width}}  {' '.join(cells)}  {each.kind}"
