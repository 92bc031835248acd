"""One key's operations as tables of small integers, ready to be searched.

States are numbers, given out so that the search has as little to tell apart as is possible: all values that nothing
ever observes are one state, LOST. What nobody needs is left out: reads that nobody saw return, and writes of unknown
outcome whose value no operation observes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass, field

from grader.nodes.histories.history import NEVER, Operation
from grader.nodes.histories.models import Model

LOST = 0
READ, NOT, SET, CAS, APPEND = range(5)  # NOT: a cas that saw another value than this


@dataclass(slots=True)
class Problem:
    """Entry i is one operation: `kind`, its states `a` and `b` (SET a, CAS a -> b, APPEND token a), when it was called
    and returned, and `group`: entries of one group have the same effect. Entries below `must` have to take effect, in
    the order of their calls; those from `must` on may, any time after their call.
    """

    initial: int
    must: int
    source: list[Operation]
    kind: list[int]
    a: list[int]
    b: list[int]
    call: list[int]
    back: list[float]
    group: list[int]
    append: Callable[[int, int], int]  # (state, token) -> the state after it
    grows: Callable[[int], bool]  # whether an observed text goes on after this state's
    roots: Callable[[int], tuple[int, ...]]  # states that a write may bring, and that appending may make this one of
    appends: bool
    nots: bool
    states: int
    needs: list[int] = field(default_factory=list)  # by state: how many that must happen observe it
    wishes: list[int] = field(default_factory=list)  # by state: how many that may happen observe it
    gives: list[int] = field(default_factory=list)  # by state: how many, of both, bring it about (not by appending)


def compiled(
    operations: Sequence[Operation],
    model: Model,
    until: float = NEVER,
    relaxed: Set[int] = frozenset(),
) -> Problem:
    """The problem of these operations, all of one key and in the order of their calls.

    Only what was called before place `until` is in it, and what had not returned then is of unknown outcome. So is
    every operation whose call is in `relaxed`: it has not to take effect, and if it does, then any time after its call.
    """
    must, may = [], []
    for operation in operations:
        if operation.status == "fail" or operation.called >= until:
            continue
        if operation.returned < until and operation.called not in relaxed:
            must.append(operation)
        elif operation.f != "read" and operation.status != "unseen":
            may.append(operation)
    values = _Values(model, must, may)
    parts = [(operation, values.of(operation)) for operation in must]
    nots = any(kind == NOT for _, (kind, _, _) in parts)
    seen = {a for _, (kind, a, _) in parts if kind in (READ, CAS)}
    chosen = [(operation, values.of(operation)) for operation in may]
    seen |= {a for _, (kind, a, _) in chosen if kind == CAS}
    chosen = [part for part in chosen if part[1][0] != READ]
    if not nots:  # then a value that nobody observes helps nobody
        useful = range(1, values.count) if values.appends else seen
        chosen = [part for part in chosen if part[1][0] == APPEND or _result(part[1]) in useful]
    groups: dict[tuple[int, int, int], int] = {}
    both = parts + chosen
    problem = Problem(
        initial=values.number(model.initial),
        must=len(parts),
        source=[operation for operation, _ in both],
        kind=[kind for _, (kind, _, _) in both],
        a=[a for _, (_, a, _) in both],
        b=[b for _, (_, _, b) in both],
        call=[operation.called for operation, _ in both],
        back=[operation.returned for operation, _ in parts] + [NEVER] * len(chosen),
        group=[groups.setdefault(part, len(groups)) for _, part in both],
        append=values.append,
        grows=values.grows,
        roots=values.roots,
        appends=values.appends,
        nots=nots,
        states=values.count,
    )
    needs = Counter(a for _, (kind, a, _) in parts if kind in (READ, CAS))
    wishes = Counter(a for _, (kind, a, _) in chosen if kind == CAS)
    gives = Counter(_result(part) for _, part in both if part[0] in (SET, CAS))
    for table, counts in ((problem.needs, needs), (problem.wishes, wishes), (problem.gives, gives)):
        table.extend(counts[state] for state in range(values.count))
    return problem


def _result(part: tuple[int, int, int]) -> int:
    kind, a, b = part
    return b if kind == CAS else a


_NOTHING = object()


class _Values:
    """Numbers for the values that some operation observes; where texts are appended to, also for their beginnings."""

    def __init__(self, model: Model, must: Sequence[Operation], may: Sequence[Operation]) -> None:
        self.model = model
        self.appends = any(operation.f == "append" for operation in (*must, *may))
        self._numbers: dict[Hashable, int] = {}
        observed = [self._observes(operation) for operation in must]
        observed += [model.value(operation.value[0]) for operation in may if operation.f == "cas"]
        for value in observed:
            if value is not _NOTHING:
                self._numbers.setdefault(value, len(self._numbers) + 1)
        self.count = len(self._numbers) + 1
        self._tokens: dict[str, int] = {}
        if self.appends:
            self._texts = sorted(value for value in self._numbers if isinstance(value, str))
            followed = zip(self._texts, [*self._texts[1:], None], strict=False)
            self._longest = [text for text, other in followed if other is None or not other.startswith(text)]
            self._places: dict[tuple[int, int], int] = {}  # (text, length) -> the number of that beginning
            self._spans: dict[int, tuple[int, int]] = {}
            self._named: list[str] = []
            self._after: dict[tuple[int, int], int] = {}
            self._written: dict[int, str] = {}  # what writes and cas make of it
            self._roots: dict[int, tuple[int, ...]] = {}

    def _observes(self, operation: Operation) -> Hashable:
        if operation.f == "read":
            return self.model.value(operation.result)
        return self.model.value(operation.value[0]) if operation.f == "cas" else _NOTHING

    def number(self, value: Hashable) -> int:
        if self.appends and isinstance(value, str):
            return self._beginning(value)
        return self._numbers.get(value, LOST)

    def of(self, operation: Operation) -> tuple[int, int, int]:
        """Its kind and its two states."""
        value = self.model.value
        match operation.f:
            case "read":
                return READ, self.number(value(operation.result)), LOST
            case "write":
                return SET, self._made(value(operation.value)), LOST
            case "append":
                if not any(operation.value in text for text in self._longest):
                    return SET, LOST, LOST  # nobody ever saw it
                token = self._tokens.setdefault(operation.value, len(self._tokens))
                if token == len(self._named):
                    self._named.append(operation.value)
                return APPEND, token, LOST
        old, new = self.number(value(operation.value[0])), self._made(value(operation.value[1]))
        if operation.status == "unseen":
            return NOT, old, LOST
        return (READ, old, LOST) if old == new else (CAS, old, new)

    def _made(self, value: Hashable) -> int:
        number = self.number(value)
        if self.appends and isinstance(value, str) and number != LOST:
            self._written[number] = value
        return number

    def _beginning(self, text: str) -> int:
        """The number of a text that some observed one begins with, else LOST."""
        at = bisect_left(self._texts, text)
        if at == len(self._texts) or not self._texts[at].startswith(text):
            return LOST
        number = self._numbers.get(text)
        if number is None:
            number = self._places.get((at, len(text)))
        if number is None:
            number = self._places[at, len(text)] = self.count
            self.count += 1
        self._spans[number] = (at, len(text))
        return number

    def append(self, state: int, token: int) -> int:
        """The state after text `token` is appended."""
        if state == LOST:
            return LOST
        after = self._after.get((state, token))
        if after is None:
            at, length = self._spans[state]
            after = self._after[state, token] = self._beginning(self._texts[at][:length] + self._named[token])
        return after

    def grows(self, state: int) -> bool:
        """Whether some observed text begins with that of `state` and goes on."""
        if not self.appends or state not in self._spans:
            return False
        at, length = self._spans[state]
        text = self._texts[at][:length]
        return any(len(other) > length and other.startswith(text) for other in self._texts[at : at + 2])

    def roots(self, state: int) -> tuple[int, ...]:
        """The results of writes and cas with which the text of `state` begins, itself among them."""
        found = self._roots.get(state)
        if found is None:
            at, length = self._spans.get(state, (0, 0))
            text = self._texts[at][:length] if state in self._spans else ""
            found = tuple(number for number, root in self._written.items() if text.startswith(root))
            self._roots[state] = found
        return found
