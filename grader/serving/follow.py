"""Reads an engine's record: which request each chunk belongs to, what each slot of the cache holds, and what a step did.

Nothing of the model is needed for this. A slot holds the key and value of some request's token at some position, and
they are right for everyone whose tokens are the same up to there. So a chunk whose positions are all right computes
what the request alone would, and the first one that is not is found by name: whose slot it is, or that it is nobody's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.serving.run import Event, Progress, Trace


@dataclass
class Live:
    """A request that was submitted. `keys[p]` stands for its tokens 0 .. p."""

    number: int
    name: Any
    prompt: tuple[int, ...]
    most: int
    known: list[int] = field(default_factory=list)  # the prompt, and what was returned
    keys: list[int] = field(default_factory=list)
    cached: int = 0  # positions that are in the cache
    table: tuple[int, ...] = ()  # the blocks of these
    own: int = 0  # the first position that it computed itself, since its last start
    begun: int = 0  # the step of its first chunk; 0: none yet
    absent: bool = False  # left out for want of blocks: preempted, as far as can be seen
    starts: int = 0
    ended: str = ""  # "eos", "length", "cancelled"

    def learn(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.known.append(token)
            self.keys.append(hash((self.keys[-1] if self.keys else 0, token)))

    @property
    def returned(self) -> int:
        return len(self.known) - len(self.prompt)

    @property
    def decoding(self) -> bool:
        return self.returned > 0 and self.cached == len(self.known) - 1

    @property
    def label(self) -> str:
        return f"request {self.name!r}"


@dataclass(frozen=True)
class Before:
    """A request as it was before a forward."""

    cached: int
    known: int
    table: tuple[int, ...]
    decoding: bool
    begun: bool
    absent: bool
    own: int


@dataclass(frozen=True)
class Part:
    """One chunk of a forward."""

    request: int
    start: int
    count: int
    table: tuple[int, ...]
    decodes: bool
    again: bool = False  # positions that it had computed before
    first: bool = False  # its first chunk, or that after a preemption

    @property
    def end(self) -> int:
        return self.start + self.count


@dataclass
class Frame:
    """One step: its number from 1, ticks, chunks, what it returned, and who was unfinished, in order of submission."""

    step: int
    begin: int
    end: int
    events: list[Event]
    parts: list[Part] = field(default_factory=list)
    returned: dict[int, list[int]] = field(default_factory=dict)
    before: dict[int, Before] = field(default_factory=dict)
    held: dict[int, tuple[int, ...]] = field(default_factory=dict)  # blocks, by request

    @property
    def tokens(self) -> int:
        return sum(part.count for part in self.parts)

    def of(self, request: int) -> Part | None:
        return next((part for part in self.parts if part.request == request), None)


@dataclass(frozen=True)
class Written:
    """What a slot holds."""

    key: int
    request: int
    position: int
    step: int


@dataclass(frozen=True)
class Finding:
    """Something that is wrong: by which rule, and in words. After a fatal one nothing more can be said of the run."""

    rule: str
    text: str
    step: int
    request: int = -1
    expected: str = ""
    got: str = ""
    fatal: bool = False


class Stop(Exception):  # noqa: N818 - ends the reading of a record
    """A fatal finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


class Follow:
    """A record that was read. `right` are the tokens that each request must get (empty: whatever was returned)."""

    def __init__(self, trace: Trace, right: Sequence[Sequence[int]] = ()) -> None:
        self.trace, self.right = trace, right
        self.progress = Progress(trace)
        self.live: dict[int, Live] = {}
        self.slots: dict[int, Written] = {}
        self.mine: dict[tuple[int, int], tuple[int, int]] = {}  # (request, position): slot and step it was written in
        self.frames: list[Frame] = []
        self.findings: list[Finding] = []

    @property
    def alive(self) -> list[Live]:
        return [self.live[number] for number in self.progress.unfinished]

    def found(self, rule: str, text: str, request: int = -1, expected: str = "", got: str = "") -> None:
        self.findings.append(Finding(rule, text, len(self.frames), request, expected, got))

    def stop(self, rule: str, text: str, request: int = -1, expected: str = "", got: str = "") -> Stop:
        return Stop(Finding(rule, text, len(self.frames), request, expected, got, True))

    def read(self, steps: Any) -> Iterator[Frame]:
        """Each step, as soon as it is known what was in it and before the next is looked at. The record comes from a
        box: what is no record ends it, as every fatal finding does."""
        try:
            for happened, forwards, returned, odd in steps:
                frame = self._read(int(happened), forwards, returned, odd)
                yield frame
                frame.held = {n: one.table for n in frame.before if (one := self.live[n]).cached and not one.absent}
            if not self.progress.ended:
                self._raise_for_the_end()
        except Stop as stopped:
            self.findings.append(stopped.finding)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
            text = "The record of this run is no record. Do not touch the harness"
            self.findings.append(Finding("record", text, len(self.frames), fatal=True))

    # ---- one step

    def _read(self, happened: int, forwards: Any, returned: Any, odd: Any) -> Frame:
        progress = self.progress
        if returned is None:
            raise self.stop("form", "forward() was called outside of step(). Call it in step(), at most once")
        events = progress.begin()
        for event in events:
            request = self.trace.requests[event.request]
            if event.what == "submit":
                fresh = Live(event.request, request.name, request.prompt, request.most)
                fresh.learn(request.prompt)
                self.live[event.request] = fresh
            elif event.request in self.live and not self.live[event.request].ended:
                self.live[event.request].ended = "cancelled"
        frame = Frame(len(self.frames) + 1, progress.now, progress.now, events)
        self.frames.append(frame)
        if happened != progress.happened:
            raise self.stop(
                "record", "Requests came at other times than by the steps' lengths. Do not touch the harness"
            )
        alive = self.alive
        frame.before = {
            one.number: Before(
                one.cached, len(one.known), one.table, one.decoding and not one.absent, bool(one.begun), one.absent,
                one.own,
            )
            for one in alive
        }  # fmt: skip
        if len(forwards) > 1:
            text = f"Step {frame.step} called forward() {len(forwards)} times. Put all chunks of a step into one call"
            raise self.stop("form", text, expected="1 forward a step", got=f"{len(forwards)}")
        if forwards and not alive:
            raise self.stop("form", self._nothing_to_do(frame, forwards[0]))
        if not forwards and alive:
            raise self.stop("stands", self._stands(frame), alive[0].number, "a forward", "none")
        chunks = [(list(tokens), int(start), tuple(table)) for tokens, start, table in forwards[0]] if forwards else []
        self._match(frame, chunks)
        self._slots(frame)
        for part in frame.parts:
            self._compute(frame, part)
        if odd:
            raise self.stop("form", f"In step {frame.step}, {odd[0]}")
        self._return(frame, {int(number): [int(one) for one in tokens] for number, tokens in returned})
        progress.stepped(chunks, [(number, tokens) for number, tokens in returned])
        frame.end = progress.now
        return frame

    def _nothing_to_do(self, frame: Frame, chunks: Any) -> str:
        tokens, start, table = chunks[0]
        whose = self._whose(tokens, start, table)
        return (
            f"Step {frame.step} called forward() although no request is unfinished{whose}. With nothing to do, return {{}} "
            "without a forward"
        )

    def _stands(self, frame: Frame) -> str:
        first = self.alive[0]
        held = {block for one in self.alive for block in one.table if not one.absent}
        text = (
            f"Step {frame.step} made no forward although {len(self.alive)} requests are unfinished"
            if len(self.alive) > 1
            else f"Step {frame.step} made no forward although {first.label} is unfinished"
        )
        running = [one for one in self.alive if one.cached and not one.absent]
        if len(running) > 1:
            need = sum(-(-len(one.known) // self.trace.block_size) for one in running)
            text += (
                f". The requests that run hold {len(held)} of {self.trace.blocks} blocks and need {need} for this step. "
                "If there is no block for a running request, preempt the youngest"
            )
        elif first.begun:
            text += f". The oldest, {first.label}, has {first.cached} of {len(first.known)} tokens in the cache"
        else:
            need = -(-len(first.known) // self.trace.block_size)
            text += (
                f". The oldest, {first.label}, needs {need} of {self.trace.blocks} blocks for its {len(first.known)} "
                f"tokens, and requests that run hold {len(held)}"
            )
            text += ". Free the blocks of requests that are over or cancelled" if frame.step > 1 else ""
        return text

    # ---- whose chunk is it?

    def _match(self, frame: Frame, chunks: list[tuple[list[int], int, tuple[int, ...]]]) -> None:
        """Each chunk belongs to a request that has these tokens there: one that goes on where it was, with the blocks
        that it had, before one that begins; and of those the one that was submitted first."""
        size, pairs = self.trace.block_size, []
        for at, (tokens, start, table) in enumerate(chunks):
            for order, one in enumerate(self.alive):
                if one.known[start : start + len(tokens)] != tokens:
                    continue
                goes_on = start == one.cached > 0 and table[: len(one.table)] == one.table
                fits = all(self._right(one, p, table[p // size] * size + p % size) for p in range(start))
                pairs.append((not goes_on, not (fits and start >= one.cached), not fits, order, at))
        taken: dict[int, int] = {}  # by chunk
        for *_, order, at in sorted(pairs):
            if at not in taken and order not in taken.values():
                taken[at] = order
        alive = self.alive
        for at, (tokens, start, table) in enumerate(chunks):
            if at not in taken:
                raise self.stop(
                    "form", self._nobodys(frame, tokens, start, table, [alive[one] for one in taken.values()])
                )
            one = alive[taken[at]]
            decodes = one.returned > 0 and start == len(one.known) - 1
            again = start < one.cached
            first = not one.begun or again or one.absent
            frame.parts.append(Part(one.number, start, len(tokens), table, decodes, again, first))

    def _nobodys(
        self, frame: Frame, tokens: list[int], start: int, table: tuple[int, ...], taken: Sequence[Live]
    ) -> str:
        what = f"{_tokens(tokens)} at position {start}"
        for one in taken:
            if one.known[start : start + len(tokens)] == tokens:
                return (
                    f"Step {frame.step} has two chunks with {what}, but only {one.label} has these tokens there. Give each "
                    "request at most one chunk"
                )
        for one in self.live.values():
            if one.ended and one.known[start : start + len(tokens)] == tokens:
                how = "was cancelled" if one.ended == "cancelled" else "is over"
                return (
                    f"Step {frame.step} computes {what} for {one.label}, which {how}. Remove a request from the batch "
                    "as soon as it is over or cancelled"
                )
        near = self._by_table(table, start)
        if near is None:
            return f"Step {frame.step} has a chunk with {what}, and no unfinished request has these tokens there"
        right = near.known[start : start + len(tokens)]
        has = f"has {_tokens(right)} there" if right else f"has only {len(near.known)} tokens"
        return (
            f"Step {frame.step} has a chunk with {what}, and no unfinished request has these tokens there. By its "
            f"block_table it is a chunk of {near.label}, which {has} and whose next position is {near.cached}"
        )

    def _by_table(self, table: Sequence[int], start: int) -> Live | None:
        scores = [(sum(a == b for a, b in zip(one.table, table, strict=False)), one.number) for one in self.alive]
        best = max(scores, default=(0, 0))
        return self.live[best[1]] if best[0] else None

    def _whose(self, tokens: Sequence[int], start: int, table: Sequence[int]) -> str:
        for one in self.live.values():
            if one.known[start : start + len(tokens)] == list(tokens):
                how = "was cancelled" if one.ended == "cancelled" else "is over"
                return f": {_tokens(tokens)} at position {start} belong to {one.label}, which {how}"
        return ""

    # ---- what lies in the slots

    def _slot(self, part: Part, position: int) -> int:
        size = self.trace.block_size
        return part.table[position // size] * size + position % size

    def _right(self, one: Live, position: int, slot: int) -> bool:
        held = self.slots.get(slot)
        return held is not None and held.key == one.keys[position]

    def _slots(self, frame: Frame) -> None:
        """Two chunks of a forward that use one slot, of which one writes it; and a table that has a block twice."""
        size = self.trace.block_size
        uses: dict[int, list[tuple[Part, int]]] = {}
        for part in frame.parts:
            for position in range(part.end):
                uses.setdefault(self._slot(part, position), []).append((part, position))
        for slot, users in uses.items():
            writes = [(part, position) for part, position in users if position >= part.start]
            if not writes or len(users) == 1:
                continue
            part, position = writes[0]
            other, place = next(each for each in users if each != (part, position))
            one, two = self.live[part.request], self.live[other.request]
            does = "is written" if place >= other.start else "is read"
            if one is two:
                text = (
                    f"In step {frame.step}, the block_table of {one.label} names block {slot // size} for position "
                    f"{position} and for position {place}. Take another block for each {size} positions"
                )
                raise self.stop("reads", text, one.number)
            text = (
                f"In step {frame.step}, {one.label} writes position {position} to slot {slot % size} of block "
                f"{slot // size}. The same slot {does} for position {place} of {two.label} in this forward. "
            )
            if one.known[: position + 1] == two.known[: position + 1] and position == place:
                text += (
                    "Both have the same tokens up to there, but a block may be shared only after a forward has computed "
                    "all of it, and the block of the last prompt token is never shared"
                )
            else:
                text += self._how_shared(one, two)
            self.found("slots", text, one.number, "a slot of its own", f"block {slot // size} of {two.label}, too")
            return

    def _how_shared(self, one: Live, two: Live) -> str:
        same = _common(one.known, two.known)
        if same >= self.trace.block_size:
            return f"Their first {same} tokens are equal, so at most {same // self.trace.block_size} whole blocks can be shared"
        return "Give a block to one request only, until nobody needs it"

    def _compute(self, frame: Frame, part: Part) -> None:
        """A chunk reads what it needs, and writes what it is for."""
        one = self.live[part.request]
        for position in range(part.start):
            slot = self._slot(part, position)
            if not self._right(one, position, slot):
                raise self.stop("reads", self._wrong(frame, one, part, position, slot), one.number)
        for position in range(part.start, part.end):
            slot = self._slot(part, position)
            self.slots[slot] = Written(one.keys[position], one.number, position, frame.step)
            self.mine[one.number, position] = slot, frame.step
        if part.first or part.again:
            one.own = part.start
            one.starts += 1
        one.begun = one.begun or frame.step
        one.absent = False
        one.cached, one.table = part.end, part.table

    def _wrong(self, frame: Frame, one: Live, part: Part, position: int, slot: int) -> str:
        size = self.trace.block_size
        block = slot // size
        text = (
            f"In step {frame.step}, the chunk of {one.label} that starts at position {part.start} reads position "
            f"{position} from slot {slot % size} of block {block}. "
        )
        held, wrote = self.slots.get(slot), self.mine.get((one.number, position))
        if held is None:
            text += "Nothing was ever written there. "
        else:
            text += (
                f"There is position {held.position} of {self._name(held.request, one)}, written in step {held.step}. "
            )
        if wrote is not None and wrote[0] == slot:
            text += f"{one.label.capitalize()} had written its own position {position} there in step {wrote[1]}, and it was overwritten"
            if held is not None and held.request != one.number:
                other = self.live[held.request]
                text += (
                    f" by {other.label}. Do not free a block before every request that uses it is over or preempted, "
                    "and free it only once"
                )
            return text
        if wrote is not None:
            at = f"slot {wrote[0] % size} of block {wrote[0] // size}"
            return (
                f"{text}{one.label.capitalize()} wrote that position to {at} in step {wrote[1]}: check its block_table"
            )
        if held is not None and held.request != one.number:
            other = self.live[held.request]
            same = _common(one.known, other.known)
            if held.position == position and same and position >= same:
                return (
                    f"{text}The tokens of both requests are equal at positions 0 .. {same - 1} only. So only the first "
                    f"{same // size} blocks can be shared, those that are whole before position {same}"
                )
        return (
            f"{text}{one.label.capitalize()} has never computed its position {position}. Compute positions in order, and "
            "skip only whole blocks that another request with the same tokens has computed in an earlier step"
        )

    def _name(self, number: int, one: Live) -> str:
        if number == one.number:
            return "the same request"
        other = self.live[number]
        how = {"": "", "cancelled": ", which was cancelled"}.get(other.ended, ", which is over")
        return other.label + how

    # ---- what came back

    def _return(self, frame: Frame, returned: dict[int, list[int]]) -> None:
        for number in sorted(returned):
            if returned[number] and number not in frame.before:
                raise self.stop("tokens", self._late(frame, number, returned[number]), number, "no token", "one")
        for one in self.alive:
            tokens, part = returned.get(one.number, []), frame.of(one.number)
            whole = part is not None and part.end == len(one.known)
            if not tokens and not whole:
                continue
            number = one.returned
            which = f"token {number + 1} of {one.label}"
            if not tokens:
                text = (
                    f"Step {frame.step} computed {which}, but step() returned none for it. Return each new token in the "
                    "step that computes it"
                )
                raise self.stop("tokens", text, one.number, "1 token", "none")
            if not whole or len(tokens) > 1:
                raise self.stop("tokens", self._too_many(frame, one, part, tokens), one.number)
            if self.right and tokens[0] != self.right[one.number][number]:
                right = self.right[one.number][number]
                text = (
                    f"Step {frame.step} returned {tokens[0]} as {which}, but alone it gets {right}. The chunk and its "
                    "block_table are right. Return the index of the largest logit of that chunk's row"
                )
                raise self.stop("tokens", text, one.number, str(right), str(tokens[0]))
            one.learn(tokens)
            frame.returned[one.number] = tokens
            if tokens[-1] == self.progress.eos:
                one.ended = "eos"
            elif one.returned >= one.most:
                one.ended = "length"

    def _late(self, frame: Frame, number: int, tokens: list[int]) -> str:
        if number not in self.live:
            return f"Step {frame.step} returned {_tokens(tokens)} for a request that was not submitted yet"
        one = self.live[number]
        why = {
            "cancelled": "which was cancelled before",
            "eos": f"which was over: its last token was model.eos ({self.progress.eos})",
        }.get(one.ended, f"which was over: it has its max_new_tokens = {one.most} tokens")
        return f"Step {frame.step} returned {_tokens(tokens)} for {one.label}, {why}"

    def _too_many(self, frame: Frame, one: Live, part: Part | None, tokens: list[int]) -> str:
        if len(tokens) > 1:
            return (
                f"Step {frame.step} returned {len(tokens)} tokens for {one.label}. A step gives a request at most one"
            )
        if part is None:
            return f"Step {frame.step} returned {_tokens(tokens)} for {one.label}, which had no chunk in it"
        again = " Do not return tokens again after a preemption." if part.again or one.starts > 1 else ""
        return (
            f"Step {frame.step} returned {_tokens(tokens)} for {one.label}, but its chunk ends at position {part.end - 1} "
            f"of {len(one.known)} tokens, so the logits are not those of its next token.{again} Return a token only when "
            "the chunk ends with the request's last token"
        )

    def _raise_for_the_end(self) -> None:
        first = self.alive[0] if self.alive else None
        text = "The run was ended after many more steps than are needed"
        if first is not None:
            text += f". The oldest unfinished request, {first.label}, has {first.returned} of up to {first.most} tokens"
        raise self.stop("stands", text, first.number if first else -1)


def _common(one: Sequence[int], two: Sequence[int]) -> int:
    """How many tokens two requests have in common, from the first on."""
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def _tokens(tokens: Sequence[int]) -> str:
    if len(tokens) == 1:
        return f"token {tokens[0]}"
    return f"tokens {list(tokens)}" if len(tokens) <= 4 else f"{len(tokens)} tokens"
