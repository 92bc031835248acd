"""Replicated data types: what GCounter, PNCounter, LWWRegister and ORSet must answer, and the scripts that ask.

Shapiro, Preguica, Baquero, Zawirski 2011, "A comprehensive study of convergent and commutative replicated data types";
the add-wins set without tombstones: Bieniusa et al. 2012, "An optimized conflict-free replicated set".
"""

from __future__ import annotations

import itertools
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Self

from grader.exercise import Draw
from grader.exercises.common.replicas import Script, case
from grader.worlds.cases import Case

_tags = itertools.count()


class _Model(ABC):
    """What is merged into a new one is its copy."""

    @abstractmethod
    def merge(self, other: Any) -> None: ...

    def copy(self) -> Self:
        other = type(self)()
        other.merge(self)
        return other


class GCounter(_Model):
    """The model: what each node added."""

    def __init__(self) -> None:
        self.added: Counter[str] = Counter()

    def increment(self, node: str, amount: int = 1) -> None:
        self.added[node] += amount

    def merge(self, other: GCounter) -> None:
        self.added |= other.added

    def value(self) -> int:
        return self.added.total()


class PNCounter(_Model):
    """The model: two counters that only grow."""

    def __init__(self) -> None:
        self.up, self.down = GCounter(), GCounter()

    def increment(self, node: str, amount: int = 1) -> None:
        self.up.increment(node, amount)

    def decrement(self, node: str, amount: int = 1) -> None:
        self.down.increment(node, amount)

    def merge(self, other: PNCounter) -> None:
        self.up.merge(other.up)
        self.down.merge(other.down)

    def value(self) -> int:
        return self.up.value() - self.down.value()


class LWWRegister(_Model):
    """The model: the greatest (timestamp, node) and its value; every pair is used once."""

    def __init__(self) -> None:
        self.last: tuple[float, str] | None = None
        self.kept: Any = None

    def set(self, value: Any, timestamp: float, node: str) -> None:
        if self.last is None or (timestamp, node) > self.last:
            self.last, self.kept = (timestamp, node), value

    def merge(self, other: LWWRegister) -> None:
        if other.last is not None:
            self.set(other.kept, *other.last)

    def value(self) -> Any:
        return self.kept


class ORSet(_Model):
    """The model: every add has a tag of its own; a remove covers the tags that are known."""

    def __init__(self) -> None:
        self.adds: set[tuple[int | str, int]] = set()
        self.removed: set[tuple[int | str, int]] = set()

    def add(self, element: int | str, node: str) -> None:
        self.adds.add((element, next(_tags)))

    def remove(self, element: int | str) -> None:
        self.removed |= {add for add in self.adds if add[0] == element and isinstance(add[0], type(element))}

    def merge(self, other: ORSet) -> None:
        self.adds |= other.adds
        self.removed |= other.removed

    def value(self) -> set[int | str]:
        return {element for element, _ in self.adds - self.removed}


MODELS: dict[str, Callable[[], Any]] = {
    "GCounter": GCounter, "PNCounter": PNCounter, "LWWRegister": LWWRegister, "ORSet": ORSet,
}  # fmt: skip
COUNTERS = ("GCounter", "PNCounter")
NODE = dict(zip("abcd", ("n1", "n2", "n3", "n4"), strict=True))  # whose replica each object is
AMOUNTS: tuple[tuple[int, ...], ...] = ((), (1,), (2,), (5,), (1000,), (2**60,))
ELEMENTS: tuple[int | str, ...] = (7, "7", "x", "y", 12)


def script(kind: str, names: str = "", moves: str = "") -> Script:
    return Script(kind, MODELS[kind]).new(*names).play(moves)


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of the plain half."""
    rng = random.Random(int(draw.generator("crdts").integers(2**31)))
    for kind in COUNTERS:
        yield case("counters", kind, [*_counters(kind), *(_history(kind, rng) for _ in range(40))])
    yield case("register", "LWWRegister", [*_registers(), *(_history("LWWRegister", rng) for _ in range(60))])
    yield case("orset", "ORSet", [*_sets(), *(_history("ORSet", rng) for _ in range(80))])
    for kind in MODELS:
        yield case("laws", kind, list(_laws(kind, rng)))
        yield case("json", kind, [*_copies(kind), *(_by_json(kind, rng) for _ in range(40))])


# ---- random


class _Clock:
    """Timestamps: each replica's grow, and several replicas may meet in one."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.last = rng, dict.fromkeys(NODE, -1)

    def next(self, name: str) -> float:
        self.last[name] += self.rng.randint(1, 3)
        return self.last[name] if self.rng.random() < 0.8 else float(self.last[name])


def _update(found: Script, name: str, rng: random.Random, clock: _Clock) -> None:
    """Something that the replica can do; its name begins with its letter."""
    node = NODE[name[0]]
    match found.kind:
        case "GCounter":
            found.do(name, "increment", node, *rng.choice(AMOUNTS))
        case "PNCounter":
            found.do(name, rng.choice(("increment", "decrement")), node, *rng.choice(AMOUNTS))
        case "LWWRegister":
            found.do(name, "set", f"v{rng.randint(0, 999)}", clock.next(name[0]), node)
        case _:
            known, element = sorted(found.models[name].value(), key=repr), rng.choice(ELEMENTS)
            if rng.random() < 0.4:
                found.do(name, "remove", rng.choice(known) if known and rng.random() < 0.8 else element)
            else:
                found.do(name, "add", element, node)


def _other(rng: random.Random, name: str) -> str:
    return rng.choice([other for other in "abc" if other != name])


def _history(kind: str, rng: random.Random) -> Script:
    """Three replicas that change and meet at random."""
    found, clock = script(kind, "abc"), _Clock(rng)
    for name in "abc":  # none is empty when it meets another
        _update(found, name, rng, clock)
    for _ in range(rng.randint(2, 16)):
        name, chance = rng.choice("abc"), rng.random()
        if chance < 0.4:
            found.merge(name, _other(rng, name))
        else:
            _update(found, name, rng, clock)
        if rng.random() < 0.4:
            found.value(name)
    for name in "abc":
        found.value(name)
    return found


# ---- by hand


def _counters(kind: str) -> Iterator[Script]:
    most = "merge keeps the larger of the two counts of each node. The value is the sum over all nodes."
    yield script(kind, "a").value("a", "The value of a new counter is 0.")
    one = script(kind, "a", "a+1 a+1:5").do("a", "increment", "n2", amount=10)  # by its name
    yield one.value("a", "increment(node, amount=1) adds the amount.")
    yield script(kind, "ab", "a+1:3 b+2:4 a<b").value("a", most)
    again = script(kind, "ab", "a+1:1 b+2:2 a<b a<b")
    yield again.value("a", f"{most} A state that is merged twice counts once.")
    yield script(kind, "ab", "a+1 b+2 a<b b<a").value("b", f"{most} Replicas merge more than once.").value("a")
    yield script(kind, "ab", "a+1 b+2 b<a a+1:6 a<b").value("a", f"{most} b's count of n1 is older than a's.")
    if kind == "PNCounter":
        yield script(kind, "a", "a-1:4").value("a", "decrement subtracts the amount. The value may go below 0.")
        why = "Keep increments and decrements in two counts that only grow. In one count for both, the maximum loses decrements."
        yield script(kind, "ab", "a+1:9 b+2:1 b<a a-1:5 b<a").value("b", why)


def _registers() -> Iterator[Script]:
    def register(names: str = "a", **written: tuple[Any, float, str]) -> Script:
        """Replicas, and what some of them were set to in this order; "a_" is a once more."""
        found = script("LWWRegister", names)
        for name, (value, timestamp, node) in written.items():
            found.do(name[0], "set", value, timestamp, node)
        return found

    yield register().value("a", "The value of a register that was never set is None.")
    for value in (0, "", False, [1], {"k": [None]}):
        yield register(a=(value, 5, "n1")).value("a", "Any JSON value can be set, also an empty value.")
    yield register(a=("x", 0, "n1")).value("a", "Timestamp 0 is a valid timestamp, and later than no write at all.")
    late = register(a=("new", 9, "n1"), a_=("old", 4, "n2"))
    yield late.value("a", "A write with an older timestamp changes nothing, even if it arrives later.")
    tie = "With equal timestamps the larger node id wins, whichever write arrives first."
    for first, second in (("n1", "n2"), ("n2", "n1")):
        yield register(a=(first, 4, first), a_=(second, 4, second)).value("a", tie)
        yield register("ab", a=(first, 4, first), b=(second, 4, second)).merge("a", "b").value("a", tie)
        yield register("ab", a=("zero", 0, first), b=("one", 0, second)).merge("a", "b").value("a", tie)
    yield register("ab", a=("x", 0, "n1")).merge("a", "b").value("a", "b was never set, so a keeps its value.")
    yield register("ab", b=(0, 0, "n1")).merge("a", "b").value("a", "a was never set, so it takes b's value.")
    for mine, theirs in ((3, 8), (8, 3)):
        met = register("ab", a=("a's", mine, "n1"), b=("b's", theirs, "n2")).merge("a", "b")
        yield met.value("a", "The later timestamp wins.")
    kept = register("abc", a=("a's", 5, "n1"), b=("b's", 7, "n2")).merge("a", "b").do("c", "set", "c's", 6, "n3")
    yield kept.merge("a", "c").value("a", "merge must copy the timestamp and the node together with the value.")
    node = register("abc", b=("b's", 5, "n3"), a=("a's", 4, "n1")).merge("a", "b").do("c", "set", "c's", 5, "n2")
    yield node.merge("a", "c").value("a", "merge must copy the node together with the value.")
    never = "Timestamps may be negative and may have fractions. A first write is later than no write at all, whatever its timestamp."
    yield register(a=("x", -3, "n1")).value("a", never)
    yield register("ab", b=("x", -3, "n2")).merge("a", "b").value("a", never)
    yield register(a=("x", -0.75, "n1"), a_=("y", -0.25, "n1")).value("a", "-0.25 is later than -0.75.")
    null = "None is a value like any other. A register that was set to None counts as set: compare timestamps."
    yield register(a=("x", 1, "n1"), a_=(None, 2, "n1")).value("a", null)
    yield register(a=(None, 2, "n1"), a_=("x", 1, "n2")).value("a", null)
    yield register("ab", a=("x", 1, "n1"), b=(None, 2, "n2")).merge("a", "b").value("a", null)
    yield register("ab", a=(None, 2, "n1"), b=("x", 1, "n2")).merge("a", "b").value("a", null)


def _sets() -> Iterator[Script]:
    kind = "ORSet"
    wins = "The replica that removed x had not seen this add, so the add wins."
    tags = "Give every add a tag that was never used. A count of present elements repeats after a remove."
    yield script(kind, "a").value("a", "A new set is empty.")
    yield script(kind, "a", "a+1 a+1").do("a", "add", 7, "n1").value("a")
    yield script(kind, "a", "a-").value("a", "Removing an element that is not in the set does nothing.")
    yield script(kind, "a", "a- a+1").value("a", "A remove covers only adds that this replica has seen.")
    yield script(kind, "a", "a+1 a+2 a-").value("a", "A remove covers all adds that this replica has seen.")
    back = "A removed element can be added again. A tombstone belongs to one add, not to the element."
    yield script(kind, "a", "a+1 a- a+1").value("a", back)
    yield script(kind, "a", "a+1 a+1 a- a+1 a-").value("a", "The second remove must cover the add before it.")
    yield script(kind, "ab", "a+1 b<a a- b+2 a<b b<a").value("a", wins).value("b", wins)
    gone = script(kind, "ab", "a+1 b<a a- b<a")
    yield gone.value("b", "a removed the add that b had seen. merge must carry the remove to b.")
    ghost = script(kind, "ab", "a+1 b<a a- a<b")
    yield ghost.value("a", "a removed this add, then merged b, which still held it. The add must not come back.")
    again = script(kind, "ab", "a+1 b<a a- a+1 b<a a<b")
    yield again.value("b", "x was added again after it was removed.").value("a", "x was added again.")
    yield script(kind, "ab", "a+1 b<a b- a+1 a<b").value("a", tags + " " + wins)
    other = script(kind, "ab", "a+1").do("b", "add", "y", "n2").play("a- a<b b<a")
    yield other.value("b", "Removing x must not affect y.")
    yield script(kind, "ab", "a+1 b+2 a<b a- b<a").value("b", "a had seen both adds when it removed x, so x is gone.")
    one = script(kind, "ab", "a+1 b+2 a- a<b")
    yield one.value("a", f"Also b's first add needs a tag of its own. {wins}")
    yield script(kind, "ab", "a+1 a+1 b<a b- a<b").value("a", "b had seen both adds when it removed x, so x is gone.")
    shared = script(kind, "ab", "a+1 b<a a+1 b- a<b")
    yield shared.value("a", f"{wins} b's state is a copy: what a adds after b merged it must not be in it.")
    old = script(kind, "abc", "a+1 c<a a- b<a b<c")
    yield old.value("b", "b merged the remove before it merged the add. The remove must cover this add all the same.")


# ---- laws

LEFT_ALONE = "a.merge(b) must not change b."


def _past(found: Script, seed: int, steps: int, mark: str = "") -> None:
    """The random past of `seed`, of three replicas whose names end with `mark`. Some may still be empty."""
    rng = random.Random(seed)
    clock = _Clock(rng)
    found.new(*(f"{name}{mark}" for name in "abc"))
    for _ in range(steps):
        name = rng.choice("abc")
        if rng.random() < 0.25:
            found.merge(f"{name}{mark}", f"{_other(rng, name)}{mark}")
        else:
            _update(found, f"{name}{mark}", rng, clock)


def _commutative(found: Script, seed: int, steps: int) -> None:
    _past(found, seed, steps)
    _past(found, seed, steps, "2")
    found.merge("a", "b").note("a").merge("b2", "a2")
    found.same("b2", "merge must be commutative: a merged with b equals b merged with a.", 0)


def _associative(found: Script, seed: int, steps: int) -> None:
    _past(found, seed, steps)
    _past(found, seed, steps, "2")
    found.merge("a", "b").merge("a", "c").note("a").merge("b2", "c2").merge("a2", "b2")
    found.same("a2", "merge must be associative: (a with b) with c equals a with (b with c).", 0)


def _idempotent(found: Script, seed: int, steps: int) -> None:
    _past(found, seed, steps)
    said = "merge must be idempotent: a state that is merged twice counts once."
    found.merge("a", "b").note("a").merge("a", "b").same("a", said, 0).merge("a", "a").same("a", said, 0)
    found.merge("b", "a").same("b", said, 0).merge("a", "b").same("a", said, 0)


def _apart(found: Script, seed: int, steps: int) -> None:
    """b is left alone by a.merge(b), also by what comes later; and a by what happens to b."""
    rng = random.Random(seed)
    _past(found, seed, steps)
    clock = _Clock(rng)
    clock.last = dict.fromkeys(NODE, 100)
    found.note("b").merge("a", "b").same("b", LEFT_ALONE, 0)
    _update(found, "a", rng, clock)
    found.same("b", "An update of a after a.merge(b) changed b, too. The two must share nothing.", 0)
    found.note("a")
    _update(found, "b", rng, clock)
    found.same("a", "An update of b after a.merge(b) changed a, too. The two must share nothing.", 3)


LAWS = (_commutative, _associative, _idempotent, _apart)


def _first(found: Script) -> Script:
    """One update of a: who holds nothing at all keeps every law."""
    return found.do("a", "set", "x", 5, "n1") if found.kind == "LWWRegister" else found.play("a+1:3")


def _laws(kind: str, rng: random.Random) -> Iterator[Script]:
    yield _first(script(kind, "ab")).merge("b", "a").value("b", "b was empty, so it must take a's value.")
    if kind == "ORSet":
        gone = script(kind, "ab", "a+1 b<a a-").note("b")
        yield gone.merge("a", "b").same("b", LEFT_ALONE, 0)
    for law in LAWS:
        for steps in (1, 2, 2, 3, 3, 4, 5, 6, 8, 12):
            found = Script(kind, MODELS[kind])
            law(found, rng.randrange(2**31), steps)
            yield found


# ---- JSON

LOST = "An object that went through JSON must behave exactly like one that did not."


class _Twice(Script):
    """Everything is done twice: to replicas that go by way of JSON now and then, and to others that never do."""

    def do(self, name: str, method: str, *args: Any, **kwargs: Any) -> Self:
        super().do(name, method, *args, **kwargs)
        return super().do(f"{name}2", method, *args, **kwargs)

    def merge(self, name: str, other: str) -> Self:
        super().merge(name, other)
        return super().merge(f"{name}2", f"{other}2")

    def by_json(self, name: str) -> Self:
        return self.copy(name, name)

    def value(self, name: str, why: str = LOST) -> Self:
        return self.note(f"{name}2").same(name, why, len(self.asks) - 1)


def _twice(kind: str, moves: str = "") -> _Twice:
    return _Twice(kind, MODELS[kind]).new("a", "b", "c", "a2", "b2", "c2").play(moves)


def _by_json(kind: str, rng: random.Random) -> Script:
    """A random history."""
    both, clock = _twice(kind), _Clock(rng)
    for number in range(rng.randint(5, 15)):
        name, chance = rng.choice("abc"), rng.random()
        if number < 3:  # none is empty when it meets another
            name, chance = "abc"[number], 1.0
        if chance < 0.3:
            both.merge(name, _other(rng, name))
        elif chance < 0.6:
            both.by_json(name)
        else:
            _update(both, name, rng, clock)
        both.value(name)
    return both.value("a").value("b").value("c")


def _copies(kind: str) -> Iterator[Script]:
    yield _first(script(kind, "a")).copy("b", "a").value("b", LOST)
    yield script(kind, "a").copy("b", "a").note("a").same("b", "An empty object must stay empty.", 0)
    if kind in COUNTERS:
        more = script(kind, "a", "a+1:2").copy("b", "a").play("b+1")
        yield more.value("a", "The copy must share nothing with the original.")
        each = f"{LOST} to_json must hold each node's count, not only the sum."
        yield _twice(kind, "a+1:2 b+2:3 b<a").by_json("a").merge("a", "b").value("a", each)
    if kind == "PNCounter":
        yield _twice(kind, "a-1:3").by_json("a").value("a", f"{LOST} to_json must hold both counts.")
    if kind == "LWWRegister":
        for late, why in ((3, "timestamp"), (5, "node")):
            both = _twice(kind).do("a", "set", "new", 5, "n2").by_json("a").do("a", "set", "old", late, "n1")
            yield both.value("a", f"{LOST} to_json must hold the {why}, too.")
        yield _twice(kind).by_json("a").do("a", "set", "x", 0, "n1").value("a")
        null = _twice(kind).do("a", "set", None, 5, "n2").by_json("a").do("a", "set", "old", 3, "n1")
        yield null.value("a", f"{LOST} A register that was set to None counts as set.")
        yield _twice(kind).by_json("a").do("a", "set", "x", -1, "n1").value("a")
    if kind == "ORSet":
        both = _twice(kind).do("a", "add", 7, "n1").do("a", "add", "7", "n1").by_json("a")
        yield both.value("a", f"{LOST} An element that is a number must stay a number.")
        yield _twice(kind, "a+1").by_json("a").play("a-").value("a")
        reuse = _twice(kind, "a+1 b<a b- a-").by_json("a").play("a+1 a<b")
        yield reuse.value("a", f"{LOST} An add after from_json needs a tag that was never used.")
        ghost = _twice(kind, "a+1 b<a a-").by_json("a").merge("a", "b")
        yield ghost.value("a", f"{LOST} x was removed, so it must not come back from b, which still holds it.")
