"""Vector clocks: what VectorClock must answer, and the scripts that ask.

Fidge 1988, "Timestamps in message-passing systems that preserve the partial ordering"; Mattern 1989, "Virtual time and
global states of distributed systems".
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

from grader.exercise import Draw
from grader.exercises.common.replicas import Script, case
from grader.worlds.cases import Case

NAMES = ("n1", "n2", "n3", "n10", "a")


class Clock:
    """The model: how many ticks of each node are known."""

    def __init__(self) -> None:
        self.ticks: Counter[str] = Counter()

    def tick(self, node: str) -> None:
        self.ticks[node] += 1

    def merge(self, other: Clock) -> None:
        self.ticks |= other.ticks

    def compare(self, other: Clock) -> str:
        less, greater = self.ticks <= other.ticks, self.ticks >= other.ticks
        if less and greater:
            return "equal"
        return "before" if less else "after" if greater else "concurrent"


def _script(names: str, moves: str = "") -> Script:
    return Script("VectorClock", Clock).new(*names).play(moves)


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of the plain half."""
    rng = random.Random(int(draw.generator("clocks").integers(2**31)))
    yield case("compare", "clocks that only tick", [*_compared(), *(_ticked(rng) for _ in range(60))])
    yield case("merge", "clocks that are merged", [*_merged(), *(_history(rng) for _ in range(60))])


def _both(script: Script, one: str, other: str, why: str = "") -> Script:
    return script.compare(one, other, why).compare(other, one, why)


def _compared() -> Iterator[Script]:
    zero = "A node that a clock has never heard of counts as zero."
    both = "Each has a tick that the other has not: concurrent."
    less = "Before: no entry greater, and at least one less."
    yield _both(_script("ab"), "a", "b", "Two new clocks are zero everywhere: equal.")
    yield _script("a").compare("a", "a", "A clock equals itself.")
    yield _both(_script("ab", "a+1"), "b", "a", zero)
    yield _both(_script("ab", "a+1 b+1"), "a", "b")
    yield _both(_script("ab", "a+1 b+2"), "a", "b", both + " " + zero)
    yield _both(_script("ab", "a+1 b+1 b+1"), "a", "b", less)
    yield _both(_script("ab", "a+1 a+1 a+2 b+1 b+2 b+2"), "a", "b", f"{both} Sums of entries say nothing.")
    yield _both(_script("ab", "a+1 a+1 a+1 b+2"), "a", "b", f"{both} Sums of entries say nothing.")
    yield _both(_script("ab", "a+1 a+2 b+2 b+3 b+3"), "a", "b", f"{both} {zero}")
    yield _both(_script("ab", "a+1 b+1 b+2"), "a", "b", f"{less} {zero}")
    yield _both(_script("ab", "a+1 a+2 b+2 b+1"), "a", "b", "In which order the ticks came does not matter.")


def _ticked(rng: random.Random) -> Script:
    """Three clocks that tick at random, each with most of what another has."""
    script = _script("abc")
    for node in rng.choices(NAMES, k=rng.randint(0, 6)):
        for name in "abc":
            if rng.random() < 0.85:
                script.do(name, "tick", node)
    return _all(script)


def _all(script: Script) -> Script:
    for one in "abc":
        for other in "abc":
            script.compare(one, other)
    return script


def _is(script: Script, name: str, why: str) -> Script:
    """Compare a clock with one that ticked its way to what it must be: equal, if compare can be relied on at all."""
    right = f"right{sum(step[0] == 'new' for step in script.steps)}"
    ticks = script.models[name].ticks
    script.new(right)
    for node in sorted(ticks.elements()):
        script.do(right, "tick", node)
    return script.compare(name, right, why)


MOST = "merge takes the greater of the two, entry by entry."
APART = "merge changes the clock that it is called on and no other, and later ticks of one never show in another."


def _merged() -> Iterator[Script]:
    union = _is(_script("ab", "a+1 b+2 a<b"), "a", f"{MOST} It adds no tick of its own.")
    yield _is(union, "b", "a.merge(b) leaves b as it was.")
    yield _is(_script("ab", "a+1 b+1 a<b"), "a", f"{MOST} It does not add.")
    yield _is(_script("ab", "a+1 a+1 b+1 a<b"), "a", f"{MOST} An entry never gets smaller.")
    yield _is(_script("ab", "b+1 a<b"), "a", "A new clock that merges another equals it.")
    for name, other in ("ab", "ba"):
        why = f"{name} ticked after a.merge(b), and the other changed with it: copy the entries, share nothing."
        yield _is(_is(_script("ab", f"b+1 a<b {name}+1"), other, why), name, MOST)
    yield _is(_script("a", "a+1 a<a"), "a", "Merged with itself it stays what it is.")


def _history(rng: random.Random) -> Script:
    """Three clocks that tick and merge at random."""
    script = _script("abc")
    for _ in range(rng.randint(3, 14)):
        name = rng.choice("abc")
        if rng.random() < 0.45:
            script.merge(name, rng.choice("abc"))
        else:
            script.do(name, "tick", rng.choice(NAMES))
        if rng.random() < 0.2:
            _is(script, rng.choice("abc"), APART)
    for name in "abc":
        _is(script, name, APART)
    return script
