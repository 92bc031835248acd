"""What a class's results come to: counts, the mistakes that students share, and the bins of a histogram."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.classroom.pages.findings import gist

_MOST_BINS = 12


@dataclass(frozen=True)
class Shared:
    """One mistake: an example of its sentence, who made it, and the checks that it cost points, each with how many."""

    message: str
    students: tuple[str, ...]
    checks: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class OfKind:
    """All mistakes of one kind, the most common first, and everybody who made one."""

    kind: str
    students: tuple[str, ...]
    mistakes: tuple[Shared, ...]


@dataclass(frozen=True)
class Bin:
    """A stretch of points: from `low` up to but not including `high`; the last holds full marks alone."""

    low: float
    high: float
    count: int


Loss = tuple[str, str, str, str]  # student, check, kind, message


def by_kind(losses: Iterable[Loss]) -> list[OfKind]:
    """The losses of points by kind, and in each by what was said apart from its numbers."""
    kinds: dict[str, dict[str, list[Loss]]] = defaultdict(lambda: defaultdict(list))
    for loss in losses:
        kinds[loss[2]][gist(loss[3])].append(loss)
    found = []
    for kind, gists in kinds.items():
        shared = sorted((_shared(alike) for alike in gists.values()), key=lambda each: -len(each.students))
        students = sorted({student for each in shared for student in each.students}, key=str.casefold)
        found.append(OfKind(kind, tuple(students), tuple(shared)))
    return sorted(found, key=lambda each: (-len(each.students), each.kind))


def _shared(alike: Sequence[Loss]) -> Shared:
    students = sorted({student for student, *_ in alike}, key=str.casefold)
    checks: dict[str, set[str]] = defaultdict(set)
    for student, check, *_ in alike:
        checks[check].add(student)
    counts = sorted(((check, len(who)) for check, who in checks.items()), key=lambda pair: -pair[1])
    return Shared(alike[0][3], tuple(students), tuple(counts))


def bins(points: Iterable[float], most: float) -> list[Bin]:
    """A histogram of points out of `most`: at most a dozen bins of a round width, and one for full marks."""
    if most <= 0:
        return []
    width, steps = 0.0, (1.0, 2.0, 5.0)
    for power in range(-1, 9):
        width = next((step * 10**power for step in steps if most / (step * 10**power) <= _MOST_BINS), 0.0)
        if width and (width >= 1 or most <= 3):
            break
    count = -int(-most // width)
    counts = [0] * (count + 1)
    for reached in points:
        counts[count if reached >= most else max(int(reached // width), 0)] += 1
    edges = [min(width * at, most) for at in range(count + 1)]
    return [Bin(edges[at], edges[at + 1], counts[at]) for at in range(count)] + [Bin(most, most, counts[count])]
