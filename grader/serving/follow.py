"""Reads an engine's record: which request each chunk belongs to, what each slot holds, and what a step did.

Nothing of the model is needed for this. A slot holds the key and value of some request's token at some position, and
they are right for everyone whose tokens are the same up to there. So a chunk whose positions are all right computes
what the request alone would, and the first one that is not is found by name: whose slot it is, or that it is nobody's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from grader.serving.frames import Before, Finding, Frame, Live, Part, Written
from grader.serving.run import Progress, Trace
from grader.serving.words import Words


class Stop(Exception):  # noqa: N818 - ends the reading of a record
    """A fatal finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


class Follow(Words):
    """A record that was read. `right` are the tokens that each request must get (empty: whatever was returned)."""

    def __init__(self, trace: Trace, right: Sequence[Sequence[int]] = ()) -> None:
        self.trace, self.right = trace, right
        self.progress = Progress(trace)
        self.live: dict[int, Live] = {}
        self.slots: dict[int, Written] = {}
        self.overwritten: dict[int, list[Written]] = {}  # what slots held before
        self.mine: dict[tuple[int, int], tuple[int, int]] = {}  # (request, position): slot and step it was written in
        self.frames: list[Frame] = []
        self.findings: list[Finding] = []

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
                self._hold(frame)
            if not self.progress.ended:
                self._raise_for_the_end()
        except Stop as stopped:
            if self.frames:
                self._hold(self.frames[-1])
            self.findings.append(stopped.finding)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
            text = "The record of this run is no record. Do not touch the harness"
            self.findings.append(Finding("record", text, len(self.frames), fatal=True))

    def _hold(self, frame: Frame) -> None:
        frame.held = {n: one.table for n in frame.before if (one := self.live[n]).cached and not one.absent}

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

    # ---- what lies in the slots

    def _slot(self, part: Part, position: int) -> int:
        size = self.trace.block_size
        return part.table[position // size] * size + position % size

    def _right(self, one: Live, position: int, slot: int) -> bool:
        held = self.slots.get(slot)
        return held is not None and held.key == one.keys[position]

    def _whole(self, one: Live, position: int, slot: int) -> bool:
        """Whether the block of this slot holds all that the request has there, and not its last token."""
        size = self.trace.block_size
        places, slots = (range(each - each % size, each - each % size + size) for each in (position, slot))
        return places.stop < len(one.known) and all(map(self._right, [one] * size, places, slots))

    def _others_have(self, one: Live, block: int) -> bool:
        """Whether another unfinished request has the block in its table."""
        return any(block in other.table for other in self.alive if other is not one)

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
                    f"{position} and for position {place}. "
                )
                stale = part.again and place < part.start and not self._others_have(one, slot // size)
                text += (
                    f"It begins anew in this step, so block {slot // size} was free, and is taken twice: for a prefix "
                    "that it held before, and for new tokens. Forget a block's prefix when you free the block"
                    if stale
                    else self._given_twice(slot // size)
                )
                raise self.stop("reads", text, one.number)
            text = (
                f"In step {frame.step}, {one.label} writes position {position} to slot {slot % size} of block "
                f"{slot // size}. The same slot {does} for position {place} of {two.label} in this forward. "
            )
            if position == place and self._whole(one, position, slot) and self._whole(two, position, slot):
                text += (
                    "An earlier step computed the whole block, so both may share it, and neither need write it again. "
                    "Begin each chunk after the positions that are in the cache"
                )
            elif one.known[: position + 1] == two.known[: position + 1] and position == place:
                text += (
                    "Both have the same tokens up to there, but a block may be shared only after a forward has "
                    "computed "
                    "all of it, and the block of the last prompt token is never shared"
                )
            else:
                text += self._how_shared(one, two)
            self.found("slots", text, one.number, "a slot of its own", f"block {slot // size} of {two.label}, too")
            return

    def _compute(self, frame: Frame, part: Part) -> None:
        """A chunk reads what it needs, and writes what it is for."""
        one = self.live[part.request]
        for position in range(part.start):
            slot = self._slot(part, position)
            if not self._right(one, position, slot):
                raise self.stop("reads", self._wrong(frame, one, part, position, slot), one.number)
        for position in range(part.start, part.end):
            slot = self._slot(part, position)
            if slot in self.slots:
                self.overwritten.setdefault(slot, []).append(self.slots[slot])
            self.slots[slot] = Written(one.keys[position], one.number, position, frame.step)
            self.mine[one.number, position] = slot, frame.step
        if part.first or part.again:
            one.own = part.start
            one.starts += 1
        one.begun = one.begun or frame.step
        one.absent = False
        one.cached, one.table = part.end, part.table

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
                    f"Step {frame.step} computed {which}, but step() returned none for it. Return each new token in "
                    f"the "
                    "step that computes it"
                )
                raise self.stop("tokens", text, one.number, "1 token", "none")
            if not whole or len(tokens) > 1:
                raise self.stop("tokens", self._too_many(frame, one, part, tokens), one.number)
            if self.right and tokens[0] != self.right[one.number][number]:
                right = self.right[one.number][number]
                text = f"Step {frame.step} returned {tokens[0]} as {which}, but alone it gets {right}. "
                shared = next((each.text for each in self.findings if each.rule == "slots"), "")
                text += (
                    f"Two chunks of a forward had used the same slot: {shared[0].lower()}{shared[1:]}"
                    if shared
                    else "The chunk and its block_table are right. Return the index of the largest logit of that "
                    "chunk's row"
                )
                raise self.stop("tokens", text, one.number, str(right), str(tokens[0]))
            one.learn(tokens)
            frame.returned[one.number] = tokens
            if tokens[-1] == self.progress.eos:
                one.ended = "eos"
            elif one.returned >= one.most:
                one.ended = "length"

    def _raise_for_the_end(self) -> None:
        first = self.alive[0] if self.alive else None
        text = "The run was ended after many more steps than are needed"
        if first is not None:
            text += f". The oldest unfinished request, {first.label}, has {first.returned} of up to {first.most} tokens"
        raise self.stop("stands", text, first.number if first else -1)
