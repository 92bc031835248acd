"""The search for an order: Wing and Gong (1993) with Lowe's memoisation (2017, "Testing for linearizability").

The calls and returns of what has to take effect stand in a doubly linked list in the order of time. Next may be
whatever was called before the first return in the list; taking an operation lifts its two entries out. What was taken
and the state that it led to are remembered, so that no such pair is searched twice.

On top of that come rules that only leave out what cannot matter, each with its reason where it stands. Where every
value is written once, and without cas, they leave one choice at every step: then the search never goes back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from grader.nodes.histories.history import Operation
from grader.nodes.histories.problem import APPEND, CAS, LOST, NOT, READ, SET, Problem


@dataclass(frozen=True, slots=True)
class Found:
    """Whether there is an order (None: the budget was spent), and the longest one that was found; steps it took."""

    exists: bool | None
    order: tuple[Operation, ...]
    steps: int


def search(problem: Problem, budget: int) -> Found:
    """Look for an order of all that must take effect, in at most `budget` steps: operations taken, once more counted
    when they are taken again."""
    return _Search(problem).run(budget)


class _Search:
    """What was taken so far, and what that leaves."""

    def __init__(self, problem: Problem) -> None:
        self.p = problem
        m = self.m = problem.must
        # entry i < m is the call of i, m + i its return; 2 m begins the list and 2 m + 1 ends it
        self.head, self.tail = 2 * m, 2 * m + 1
        entries = sorted(range(2 * m), key=lambda at: problem.call[at] if at < m else problem.back[at - m])
        self.next, self.previous = [0] * (2 * m + 2), [0] * (2 * m + 2)
        for one, other in zip([self.head, *entries], [*entries, self.tail], strict=True):
            self.next[one], self.previous[other] = other, one
        # of operations that may happen, only the first of a group is worth a try: the others have the same effect later
        self.waiting: dict[int, list[int]] = {}
        for at in range(len(problem.kind) - 1, m - 1, -1):
            self.waiting.setdefault(problem.group[at], []).append(at)  # the first called comes last, to be popped
        self.needs, self.wishes, self.gives = list(problem.needs), list(problem.wishes), list(problem.gives)
        self.observing = sum(self.needs)
        self.refuses = Counter(problem.a[at] for at in range(m) if problem.kind[at] == NOT)
        self.denials = sum(count for value, count in self.refuses.items() if self.gives[value])
        self.resets = sum(kind in (SET, CAS) for kind in problem.kind)
        self.state = problem.initial
        # texts that just one write, or nothing but what was there at first (-1), can become by appending
        self.only: dict[int, int] = {}
        self.rooted: Counter[int] = Counter()
        self.root = -1
        self.pasts: list[int] = []  # the roots before each of them
        if problem.appends:
            self.root_texts()
        self.order: list[int] = []
        self.states: list[int] = []  # before each of them
        self.taken = self.maybe = 0  # bits: which that must happen were taken, and which that may
        self.steps = 0

    def root_texts(self) -> None:
        for value in {self.p.a[at] for at in range(self.m) if self.p.kind[at] in (READ, CAS)}:
            roots = self.p.roots(value)
            if len(roots) < 2:
                self.only[value] = roots[0] if roots else -1
                self.rooted[self.only[value]] += self.needs[value]
        if self.p.initial in self.p.roots(self.p.initial):
            self.root = self.p.initial

    def run(self, budget: int) -> Found:
        open_: list[tuple[int, list[int]]] = []  # how many had been taken, and what else could have come then
        seen: set[tuple[int, int, int, int]] = set()
        longest: list[int] = []
        while True:
            choices = self.choices()
            if self.next[self.head] == self.tail:
                return self.found(True, self.order)
            if self.steps > budget:
                return self.found(None, max(self.order, longest, key=len))
            if open_ and choices:
                # all before the first that is left were taken: the rest of the bits is short
                first = self.next[self.head]
                here = (first, self.taken >> first, self.maybe, self.state)
                if here in seen:
                    choices = []
                else:
                    seen.add(here)
            if not choices:
                if len(self.order) > len(longest):
                    longest = list(self.order)
                if not open_:
                    return self.found(False, longest)
                depth, choices = open_.pop()
                while len(self.order) > depth:
                    self.undo()
            self.take(choices.pop())
            if choices:
                open_.append((len(self.order) - 1, choices))

    def found(self, exists: bool | None, order: list[int]) -> Found:
        return Found(exists, tuple(self.p.source[at] for at in order), self.steps)

    def choices(self) -> list[int]:
        """Take what only observes the present state; then say what may come next, the best last.

        What changes nothing is taken at once: in any order that has it later, it can be moved to here.
        """
        kind, a, back, group, state = self.p.kind, self.p.a, self.p.back, self.p.group, self.state
        following, m = self.next, self.m
        candidates: dict[int, int] = {}  # by group: the one that has to be soonest, which can stand for the others
        reads: dict[int, int] = {}  # by state: reads and cas that could be next if the state were that
        pulls: dict[int, list[int]] = {}  # by state: those of them that are cas
        denied = False
        before = self.head
        while (at := following[before]) < m:
            what = kind[at]
            if what == READ:
                if a[at] == state:
                    self.take(at)
                    continue
                reads[a[at]] = reads.get(a[at], 0) + 1
            elif what == NOT:
                if a[at] != state:
                    self.take(at)
                    continue
                denied = True
            elif what == CAS and a[at] != state:
                pulls.setdefault(a[at], []).append(at)
            else:
                other = candidates.get(group[at])
                if other is None or back[at] < back[other]:
                    candidates[group[at]] = at
            before = at
        if at == self.tail:
            return []
        first = at - m  # has to take effect before anything else is called
        forced = self.forced(candidates, reads, pulls)
        if forced is not None:
            return [forced]
        options = [at for at in candidates.values() if self.may_leave(at)]
        for number, waiting in self.waiting.items():
            if waiting and self.p.call[waiting[-1]] < back[first] and number not in candidates:
                at = waiting[-1]
                if (kind[at] != CAS or a[at] == state) and self.helps(at, reads, pulls, denied) and self.may_leave(at):
                    options.append(at)
        if len(options) > 1:
            aim = a[first] if kind[first] in (READ, CAS) else -1
            options.sort(key=lambda at: (self.after(at) == aim, -back[at]))
        return options

    def forced(self, candidates: dict[int, int], reads: dict[int, int], pulls: dict[int, list[int]]) -> int | None:
        """A write that can be next in every order that there is, if one is left at all.

        Nobody needs the present state any more, and all who need the value written, or what cas make of it, can follow
        at once: then write and followers can be moved to here together, as what came before them begins with a write,
        and so does what comes after them. A cas that must not see some value stands in the way as long as that value
        can come.
        """
        p, state = self.p, self.state
        if self.denials or (p.appends and p.nots):
            return None
        if state != LOST and (self.needs[state] or self.wishes[state] or p.grows(state)):
            return None
        for at in candidates.values():
            if p.kind[at] == SET and (p.a[at] == LOST or (not p.appends and self.follows(p.a[at], reads, pulls))):
                return at
        return None

    def follows(self, value: int, reads: dict[int, int], pulls: dict[int, list[int]]) -> bool:
        """Whether all who need `value`, which comes only once, are reads that can be next, and maybe one cas, of whose
        new value the same holds."""
        while value != LOST:
            if self.gives[value] != 1 or self.wishes[value]:
                return False
            left = self.needs[value] - reads.get(value, 0)
            if not left:
                return True
            following = pulls.get(value, [])
            if left != 1 or len(following) != 1:
                return False
            value = self.p.b[following[0]]
        return True

    def may_leave(self, at: int) -> bool:
        """Whether the present state may be given up for that after `at`: not if somebody still has to observe it and
        it can never come back."""
        p, state, after = self.p, self.state, self.after(at)
        if after == state:
            return True
        own = p.kind[at] == CAS and at < self.m
        left = self.needs[state] - own
        if not p.appends:
            return left <= 0 or self.gives[state] > 0
        if left > 0 and not any(self.gives[root] > 0 for root in p.roots(state)):
            return False
        reset = p.kind[at] != APPEND
        if after == LOST and self.resets - reset <= 0 and self.observing - own > 0:
            return False
        if (reset or after == LOST) and after != self.root:  # then texts that only the last write can become are lost
            owed = self.rooted.get(self.root, 0) - (own and self.only.get(state) == self.root)
            return owed <= 0 or (self.root >= 0 and self.gives[self.root] > 0)
        return True

    def helps(self, at: int, reads: dict[int, int], pulls: dict[int, list[int]], denied: bool) -> bool:
        """Whether an operation that may happen is worth taking now: whether something that needs its effect can follow
        at once. Otherwise it can be taken later, or never."""
        after = self.after(at)
        if after == self.state:
            return False
        if denied:
            return True
        if self.p.appends:
            return after != LOST
        return after in reads or after in pulls or self.wishes[after] > 0

    def after(self, at: int) -> int:
        """The state after `at`, which must be possible at the present one."""
        p = self.p
        kind = p.kind[at]
        if kind == SET:
            return p.a[at]
        if kind == CAS:
            return p.b[at]
        if kind != APPEND:
            return self.state
        after = p.append(self.state, p.a[at])
        while after >= len(self.needs):  # a beginning that was not met before: nobody observes just that
            for table in (self.needs, self.wishes, self.gives):
                table.append(0)
        return after

    def take(self, at: int) -> None:
        after = self.after(at)
        self.steps += 1
        self.order.append(at)
        self.states.append(self.state)
        self.pasts.append(self.root)
        if at < self.m:
            for entry in (at, self.m + at):
                one, other = self.previous[entry], self.next[entry]
                self.next[one], self.previous[other] = other, one
            self.taken |= 1 << at
        else:
            self.waiting[self.p.group[at]].pop()
            self.maybe |= 1 << (at - self.m)
        self.count(at, -1, after)
        if after == LOST or self.p.kind[at] in (SET, CAS):
            self.root = after
        self.state = after

    def undo(self) -> None:
        at = self.order.pop()
        after, self.state, self.root = self.state, self.states.pop(), self.pasts.pop()
        if at < self.m:
            for entry in (self.m + at, at):
                self.next[self.previous[entry]] = self.previous[self.next[entry]] = entry
            self.taken ^= 1 << at
        else:
            self.waiting[self.p.group[at]].append(at)
            self.maybe ^= 1 << (at - self.m)
        self.count(at, 1, after)

    def count(self, at: int, by: int, after: int) -> None:
        """Keep the counts of who observes and who brings about which state."""
        kind = self.p.kind[at]
        if kind in (READ, CAS):
            if at < self.m:
                self.needs[self.p.a[at]] += by
                self.observing += by
                if self.p.a[at] in self.only:
                    self.rooted[self.only[self.p.a[at]]] += by
            else:
                self.wishes[self.p.a[at]] += by
        elif kind == NOT:
            self.refuses[self.p.a[at]] += by
            if self.gives[self.p.a[at]]:
                self.denials += by
        if kind in (SET, CAS):
            before = self.gives[after]
            self.gives[after] += by
            self.resets += by
            if (before == 0 or before + by == 0) and after in self.refuses:  # now it can come, or never again
                self.denials += by * self.refuses[after]
