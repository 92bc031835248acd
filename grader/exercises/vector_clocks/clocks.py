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
    zero = "A node without an entry in a clock counts as zero."
    both = "Each clock has a tick that the other lacks, so they are concurrent."
    less = "A clock is before another if no entry is greater and at least one is less."
    yield _both(_script("ab"), "a", "b", "Two new clocks are zero everywhere, so they are equal.")
    yield _script("a").compare("a", "a", "A clock equals itself.")
    yield _both(_script("ab", "a+1"), "b", "a", zero)
    yield _both(_script("ab", "a+1 b+1"), "a", "b")
    yield _both(_script("ab", "a+1 b+2"), "a", "b", both + " " + zero)
    yield _both(_script("ab", "a+1 b+1 b+1"), "a", "b", less)
    yield _both(_script("ab", "a+1 a+1 a+2 b+1 b+2 b+2"), "a", "b", f"{both} Do not compare sums of entries.")
    yield _both(_script("ab", "a+1 a+1 a+1 b+2"), "a", "b", f"{both} Do not compare sums of entries.")
    yield _both(_script("ab", "a+1 a+2 b+2 b+3 b+3"), "a", "b", f"{both} {zero}")
    yield _both(_script("ab", "a+1 b+1 b+2"), "a", "b", f"{less} {zero}")
    yield _both(_script("ab", "a+1 a+2 b+2 b+1"), "a", "b", "The order of the ticks does not matter.")
    for one, other in ("ab", "ba"):  # b has an entry that a lacks: a look-up may leave a zero behind
        why = f"{one}.compare({other}) was called before. compare must change neither clock, and {zero[0].lower()}{zero[1:]}"
        yield _script("abc", "b+1").compare(one, other).compare("a", "c", why)


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


MOST = "merge keeps the larger of the two entries of each node."
APART = "merge must change only the clock that it is called on. Copy the entries: later ticks of one clock must not "
APART += "change another."


def _merged() -> Iterator[Script]:
    alone = "No clock was merged here, so compare or tick is wrong. Fix that first: the check compare fails in the same way."
    yield _script("a").compare("a", "a", alone)
    yield _script("ab", "a+1 a+2 b+2 b+1").compare("a", "b", alone)
    union = _is(_script("ab", "a+1 b+2 a<b"), "a", f"{MOST} merge adds no tick of its own.")
    yield _is(union, "b", "a.merge(b) must not change b.")
    yield _is(_script("ab", "a+1 b+1 a<b"), "a", f"{MOST} It does not add the entries.")
    yield _is(_script("ab", "a+1 a+1 b+1 a<b"), "a", f"{MOST} An entry never gets smaller.")
    yield _is(_script("ab", "b+1 a<b"), "a", "A new clock that merges another clock becomes equal to it.")
    for name, other in ("ab", "ba"):
        why = f"After a.merge(b), a tick of {name} must not change {other}. Copy the entries, and do not share them."
        yield _is(_is(_script("ab", f"b+1 a<b {name}+1"), other, why), name, MOST)
    yield _is(_script("a", "a+1 a<a"), "a", "A clock that merges itself must not change.")


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
