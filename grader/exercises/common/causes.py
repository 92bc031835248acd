"""Why a sum is wrong, told from what every message carried: who added, overwrote or passed on what, and at which line.

Every sentence says only what `held` shows. Where several things went wrong, the first that happened is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader import says
from grader.exercises.common.held import END, Held, Message

_MOST_PARTS = 4  # told one by one
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Cause:
    """A sentence without its full stop, and the line of the learner's that it is about (0: none)."""

    text: str
    line: int = 0


@dataclass(frozen=True)
class Parts:
    """The names of the parts that a tensor is cut into: "chunk 1" where messages carry such parts, else elements."""

    word: str
    bounds: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, held: Held, count: int, word: str = "chunk") -> Parts:
        """Cut into `count`, where that is what messages carry."""
        size, rest = divmod(held.after.shape[-1], count)
        bounds = [(at * size, at * size + size) for at in range(count)] if size and not rest and count > 1 else []
        carried = {_span(places(message.holds)) for message in held.messages if message.holds is not None}
        return cls(word, tuple(bounds) if carried.intersection(bounds) else ())

    def name(self, where: Iterable[int]) -> str:
        """The part in which these elements are, "chunk 1"; else themselves, "elements 3 to 5"."""
        since, until = _span(list(where))
        for number, (first, end) in enumerate(self.bounds):
            if first <= since and until <= end:
                return f"{self.word} {number}"
        return elements(since, until)

    def exact(self, where: Iterable[int]) -> str:
        """The part that these elements are, or themselves."""
        span = _span(list(where))
        return f"{self.word} {self.bounds.index(span)}" if span in self.bounds else elements(*span)

    def several(self, where: Sequence[int]) -> list[str]:
        """The numbers of the parts that these elements fill, if they fill two or more, and not many."""
        found = [number for number, (first, end) in enumerate(self.bounds) if {*range(first, end)} <= {*where}]
        filled = sum(self.bounds[number][1] - self.bounds[number][0] for number in found)
        return [str(number) for number in found] if filled == len(where) and 2 <= len(found) <= _MOST_PARTS else []


def elements(since: int, until: int) -> str:
    """ "element 3", "elements 3 to 5"; `until` does not count."""
    return f"element {since}" if until - since == 1 else f"elements {since} to {until - 1}"


def _span(where: Sequence[int]) -> tuple[int, int]:
    return (min(where), max(where) + 1) if where else (0, 0)


def places(counts: Array) -> list[int]:
    """The positions whose values count at all, in counts of [..., rank, position]."""
    return [int(place) for place in np.flatnonzero(counts.any(axis=tuple(range(counts.ndim - 1))))]


def ranks_in(counts: Array) -> list[int]:
    """The ranks whose values count at all."""
    return [int(rank) for rank in np.flatnonzero(counts.any(-1))]


def alone(counts: Array) -> str:
    """ "rank 1 alone", "ranks 0 and 2 only": whose values count, where some are missing."""
    found = ranks_in(counts)
    return f"{says.names(found)} {'alone' if len(found) == 1 else 'only'}" if found else "no rank"


def holding(counts: Array, element: int) -> str:
    """What an element holds, in short, for beside its value: "rank 0 twice", "rank 1 alone", "element 3 of rank 0"."""
    found = places(counts)
    if found in ([], [element]):
        twice = [int(rank) for rank in np.flatnonzero((counts > 1).any(-1))]
        return f"{says.names(twice)} {_times(int(counts.max()))}" if twice else alone(counts)
    return says.listed(f"element {place} of {says.names(ranks_in(counts[:, place : place + 1]))}" for place in found)


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"


def fact(counts: Array, element: int) -> str:
    """What an element holds, as a clause about it."""
    found, once = places(counts), ranks_in(counts)
    missing = [rank for rank in range(len(counts)) if rank not in once]
    if not found:
        return "holds no rank's value"
    if found != [element]:
        return f"holds {holding(counts, element)}"
    if counts.max() > 1:
        return f"counts {holding(counts, element)}" + (f" and {says.names(missing)} not at all" if missing else "")
    if len(once) == 1:
        return f"holds the value of {says.names(once)} alone"
    return f"is the sum of {says.names(once)} only, without {says.names(missing)}"


def notes(held: Held, parts: Parts) -> dict[tuple[int, int], tuple[str, str]]:
    """What messages hold, for the picture of the run: by sender and number."""
    found = {}
    for message in held.messages:
        if message.holds is not None and message.holds.any():
            counts = message.holds.max(0)
            where, of = places(counts), says.names(ranks_in(counts))
            several = parts.several(where)
            added = bool((message.holds.any(1).sum(-1) > 1).any())  # to each other, in one value
            what = f"{parts.word}s {(' + ' if added else ', ').join(several)}" if several else parts.exact(where)
            found[message.sender, message.number] = what, f"{what} of {of}{', added up' * (added and bool(several))}"
    return found


# ---- causes


def cause(held: Held, parts: Parts, rank: int, element: int) -> Cause | None:
    """Why that element is wrong on that rank; None where nothing shows it."""
    counts = held.after[rank, element]
    found = places(counts)
    if held.ranks == 1:
        return None
    if found not in ([], [element]):
        return _mixed(held, parts) or _elsewhere(held, parts, rank, element)
    if counts.max(initial=0) > 1:
        return _twice(held, parts, rank, element)
    return (
        _overwritten(held, parts, rank, element)
        or _elsewhere_summed(held, parts, rank, element)
        or _unfinished(held, parts)
        or _not_added(held, parts)
        or _never(held, parts, rank, element)
    )


def _states(held: Held) -> Iterator[tuple[int, Array, int]]:
    """All that ranks are known to have held, in the order of time: the rank, the counts of one element, and before
    which place of its order that was."""
    for message in held.messages:
        for counts in message.holds if message.holds is not None else ():
            yield message.sender, counts, message.left
    for rank in range(held.ranks):
        for counts in held.after[rank]:
            yield rank, counts, END


def _mixed(held: Held, parts: Parts) -> Cause | None:
    """Values of two places in one element: where the one was added to the other first."""
    for rank, counts, before in _states(held):
        if len(places(counts)) < 2:
            continue
        for message, part, rest in _added(held, rank, counts, before):
            if rest.any() and not set(places(part)) & set(places(rest)):
                what, to = parts.name(places(part)), parts.name(places(rest))
                if what == to:
                    what, to = (elements(*_span(places(each))) for each in (part, rest))
                quote = held.source.quote(message.line)
                return Cause(f"Rank {rank} adds {what}, which it receives from rank {message.sender}{quote}, to {to}",
                             message.line)  # fmt: skip
        return None
    return None


def _added(held: Held, rank: int, counts: Array, before: int) -> Iterator[tuple[Message, Array, Array]]:
    """What `rank` had received of what it held then, the latest first: the message, its part of it, and the rest."""
    for message in reversed(held.got(rank, before)):
        assert message.holds is not None
        for part in message.holds:
            if part.any() and (part <= counts).all():
                yield message, part, counts - part


def _elsewhere(held: Held, parts: Parts, rank: int, element: int) -> Cause | None:
    """An element with the values of another place."""
    counts = held.after[rank, element]
    for message, _, rest in _added(held, rank, counts, END):
        if not rest.any():
            what, where = parts.name(places(counts)), parts.name([element])
            if what == where:
                what, where = f"element {places(counts)[0]}", f"element {element}"
            quote = held.source.quote(message.line)
            came = f"which rank {rank} receives from rank {message.sender}{quote}"
            return Cause(f"{what.capitalize()}, {came}, stands in the place of {where}", message.line)
    return None


def _twice(held: Held, parts: Parts, rank: int, element: int) -> Cause | None:
    """A value that counts more than once: where it was added once too often."""
    for holder, counts, before in _states(held):
        if counts.max() < 2 or len(places(counts)) > 1:
            continue
        what = parts.name(places(counts))
        for message, part, rest in _added(held, holder, counts, before):
            if not ((part > 0) & (rest > 0)).any():
                continue
            quote, line = held.source.quote(message.line), message.line
            if finished(part):
                text = (
                    f"Rank {holder} receives {what} finished, with all ranks' values in it{quote}, and adds it to what "
                    "it has there. A finished part must replace what is there"
                )
                return Cause(text, line)
            again = says.names([int(r) for r in np.flatnonzero(((part > 0) & (rest > 0)).any(-1))])
            text = f"Rank {holder} adds {what} from rank {message.sender}{quote} to a sum in which {again} count"
            return Cause(f"{text}{'s' * (' and ' not in again)} already", line)
        if ranks_in(counts > 1) == [holder] and not held.got(holder, before):
            return Cause(f"Rank {holder} counts its own values {_times(int(counts.max()))} before it receives anything")
        return None
    return None


def finished(counts: Array) -> bool:
    """Whether every rank's value of one place counts once in an element."""
    return len(places(counts)) == 1 and bool((counts.sum(-1) == 1).all())


def _finishing(held: Held, rank: int) -> Iterator[tuple[Message, int]]:
    """Messages that brought `rank` all the other ranks' values of some part, and such a place of it."""
    for message in held.got(rank):
        assert message.holds is not None
        for counts in message.holds:
            others = ranks_in(counts)
            if len(places(counts)) == 1 and len(others) == held.ranks - 1 and rank not in others:
                yield message, places(counts)[0]
                break


def _overwritten(held: Held, parts: Parts, rank: int, element: int) -> Cause | None:
    """A part that was received over a better one."""
    counts = held.after[rank, element]
    last = next((message for message, _, rest in _added(held, rank, counts, END) if not rest.any()), None)
    if last is None:
        return None
    for message in held.got(rank, last.came):
        assert message.holds is not None
        for part in message.holds:
            if places(part) == [element] and not (part <= counts).all():
                what, quote, again = parts.name([element]), *map(held.source.quote, (message.line, last.line))
                whose = "with all ranks' values in it" if finished(part) else f"with {_values(part)}"
                text = (
                    f"Rank {rank} receives {what} from rank {message.sender}, {whose}{quote}, and later receives over "
                    f"it {what} from rank {last.sender}, with {_values(counts)} only{again}"
                )
                return Cause(text, last.line)
    return None


def _values(counts: Array) -> str:
    """ "rank 1's values", "the values of ranks 0 and 2"."""
    found = ranks_in(counts)
    return f"rank {found[0]}'s values" if len(found) == 1 else f"the values of {says.names(found)}"


def _unfinished(held: Held, parts: Parts) -> Cause | None:
    """Nobody ever sends a part with all ranks' values in it, although ranks have one."""
    carried = [counts for message in held.messages if message.holds is not None for counts in message.holds]
    if any(map(finished, carried)) or any(message.holds is None for message in held.messages):
        return None
    has = [next(_finishing(held, rank), None) for rank in range(held.ranks)]
    for rank, finishing in enumerate(has):
        if finishing is None:
            continue
        message, place = finishing
        for after in held.sent(rank, message.came):
            assert after.holds is not None
            what, other = parts.name([place]), places(after.holds)
            if other and place not in other:
                lines = [held.source.quote(line) for line in (message.line, after.sent_line)]
                text = (
                    f"Rank {rank} has all it needs to finish {what} when it has received it{lines[0]}, and then sends "
                    f"{parts.exact(other)}, with {_values(after.holds.max(0))} only{lines[1]}. From there on, send "
                    "only finished parts"
                )
                return Cause(text, after.sent_line)
    if all(has) and all(_one_part(held, rank) for rank in range(held.ranks)):
        return Cause("Each rank has only one finished chunk: this is a reduce-scatter, without the all-gather after it")
    return None


def _one_part(held: Held, rank: int) -> bool:
    """Whether a rank has finished one part of the tensor, of as many as there are ranks."""
    count = sum(map(finished, held.after[rank]))
    return 0 < count <= -(-int(held.after.shape[1]) // held.ranks)


def _elsewhere_summed(held: Held, parts: Parts, rank: int, element: int) -> Cause | None:
    """A rank that sends the finished element, which nobody sent it, and does not have it in its own tensor."""

    def whole(message: Message) -> bool:
        assert message.holds is not None
        return any(finished(counts) and places(counts) == [element] for counts in message.holds)

    if any(whole(message) for message in held.got(rank)):
        return None
    sent = next((message for message in held.sent(rank) if whole(message)), None)
    if sent is None:
        return None
    text = (
        f"Rank {rank} sends the finished {parts.name([element])} to rank {sent.receiver}{held.source.quote(sent.sent_line)}, "
        "but its own tensor does not hold it. Write the sum into the tensor that was passed in. x += y changes the tensor "
        "x; x = x + y makes a new tensor and leaves the old one as it was"
    )
    return Cause(text, sent.sent_line)


def _not_added(held: Held, parts: Parts) -> Cause | None:
    """A part that was received and sent on without what it was to be added to, or without what came in."""
    whole = held.after.shape[1]
    for message in held.messages:
        if message.holds is None or len(message.holds) == whole:
            continue
        rank, what = message.sender, parts.exact(places(message.holds))
        for counts in message.holds:
            place = places(counts)
            for got in reversed(held.got(rank, message.left)):
                assert got.holds is not None
                part = next((each for each in got.holds if len(place) == 1 and places(each) == place), None)
                if part is None or finished(part) or _sent_finished(held, rank, place[0], message.left):
                    continue
                lines = [held.source.quote(line) for line in (got.line, message.sent_line)]
                came = parts.exact(places(got.holds))
                text = f"Rank {rank} receives {came} from rank {got.sender}{lines[0]} and then sends {what}{lines[1]} "
                if counts[rank].any() and not (part <= counts).all():
                    return Cause(f"{text}without {_values(part - np.minimum(part, counts))} in it", got.line)
                if not counts[rank].any() and (part == counts).all():
                    return Cause(f"{text}without its own values", got.line)
    return None


def _sent_finished(held: Held, rank: int, element: int, before: int = END) -> Message | None:
    """The first message in which `rank` sent that element finished."""
    for message in held.sent(rank):
        assert message.holds is not None
        if message.left < before and any(finished(counts) and places(counts) == [element] for counts in message.holds):
            return message
    return None


def _never(held: Held, parts: Parts, rank: int, element: int) -> Cause | None:
    """Whether the finished element ever came to the rank."""
    if any(message.holds is None for message in held.messages):
        return None
    what = parts.name([element])
    alike = [each for each in range(held.after.shape[1]) if parts.name([each]) == what]
    if any(finished(held.after[rank, each]) for each in alike):
        what = f"element {element}"
    for message in held.got(rank):
        assert message.holds is not None
        if any(finished(counts) and places(counts) == [element] for counts in message.holds):
            quote = held.source.quote(message.line)
            text = f"Rank {rank} receives {what} finished, from rank {message.sender}{quote}, and does not keep it"
            return Cause(text, message.line)
    if sent := _sent_finished(held, rank, element):
        assert sent.holds is not None
        where, quote = parts.exact(places(sent.holds)), held.source.quote(sent.sent_line)
        text = (
            f"Rank {rank} sends {where} finished to rank {sent.receiver}{quote}, and does not write that into its own"
        )
        return Cause(f"{text} tensor", sent.sent_line)
    if kept_out := _kept_out(held, rank, element, what):
        return kept_out
    never, counts = f"No message brings rank {rank} the finished {what}", held.after[rank, element]
    last = next((message for message, _, rest in _added(held, rank, counts, END) if not rest.any()), None)
    if last is None:
        return Cause(never)
    came = f"Rank {rank} receives {what} from rank {last.sender}{held.source.quote(last.line)}, with {_values(counts)} only"
    return Cause(f"{came}. {never}", last.line)


def _kept_out(held: Held, rank: int, element: int, what: str) -> Cause | None:
    """Values that a rank receives and does not count, where it receives those of all ranks itself and finished ones go
    nowhere."""
    carried = [counts for message in held.messages if message.holds is not None for counts in message.holds]
    if any(finished(counts) and places(counts) == [element] for counts in carried):
        return None
    got = [
        (message, part)
        for message in held.got(rank)
        for part in (message.holds if message.holds is not None else ())
        if places(part) == [element]
    ]
    if {rank}.union(*(ranks_in(part) for _, part in got)) != {*range(held.ranks)}:
        return None
    has = {*ranks_in(held.after[rank, element])}
    message, part = next(((message, part) for message, part in got if not {*ranks_in(part)} <= has), (None, None))
    if message is None or part is None:
        return Cause(
            f"Rank {rank} receives the values of all other ranks for {what}, but its own are missing in the sum"
        )
    text = (
        f"Rank {rank} receives {what} from rank {message.sender}, with {_values(part)}{held.source.quote(message.line)}, and "
        "its own tensor does not count them"
    )
    return Cause(text, message.line)
