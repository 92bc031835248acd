"""What is said of an engine's record where it goes wrong: whose slot it was, and what was to be there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader.says import counted, listed
from grader.serving.frames import Frame, Live, Part, Written
from grader.serving.run import Progress, Trace

FREED = "Do not free a block before every request that uses it is over or preempted, and free it only once"


class Words:
    """The sentences of a Follow."""

    trace: Trace
    progress: Progress
    frames: list[Frame]
    live: dict[int, Live]
    slots: dict[int, Written]
    overwritten: dict[int, list[Written]]
    mine: dict[tuple[int, int], tuple[int, int]]

    @property
    def alive(self) -> list[Live]:
        return [self.live[number] for number in self.progress.unfinished]

    def _nothing_to_do(self, frame: Frame, chunks: Any) -> str:
        tokens, start, table = chunks[0]
        whose = self._whose(tokens, start, table)
        return (
            f"Step {frame.step} called forward() although no request is unfinished{whose}. With nothing to do, "
            f"return {{}} "
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
        blocks = self.trace.blocks
        begun = [one for one in self.alive if one.cached]
        if len(begun) > 1:
            need = sum(-(-len(one.known) // self.trace.block_size) for one in begun)
            text += f". For their next tokens, the {len(begun)} requests that have begun need {counted(need, 'block')}"
            if need <= blocks:
                return f"{text}, and there are {blocks}. Compute each of them"
            return (
                f"{text} (shared ones counted for each), and there are {blocks}. If there is no block for a running "
                f"request, "
                "preempt the youngest"
            )
        if running:
            one = running[0]
            text += f". {one.title} has {one.cached} of {len(one.known)} tokens in the cache, in {len(held)} blocks"
        else:
            need = -(-len(first.known) // self.trace.block_size)
            text += f". {first.title} needs {counted(need, 'block')} for its {counted(len(first.known), 'token')}"
            if why := self.all_in_whole_blocks(first):
                return f"{text}. {why}"
        return (
            f"{text}. Nobody else holds a block, so {blocks - len(held)} of {blocks} must be free. Compute as much "
            f"as fits, "
            "and free every block of a request that is over, cancelled or preempted"
        )

    def all_in_whole_blocks(self, one: Live) -> str:
        """Advice where a request has computed nothing and another one has its whole prompt in whole blocks, else ""."""
        size, prompt = len(one.prompt), list(one.prompt)
        if one.cached or size % self.trace.block_size:
            return ""
        same = (other for other in self.live.values() if other.number < one.number and other.cached >= size)
        other = next((each for each in same if list(each.prompt[:size]) == prompt), None)
        if other is None:
            return ""
        return (
            f"{other.title} begins with the same {counted(size, 'token')}, which fill whole blocks. A request that "
            "shares all of these blocks has nothing left to compute and gets no token. Always compute the last token "
            "of a prompt, in a block that is not shared"
        )

    def _nobodys(
        self, frame: Frame, tokens: list[int], start: int, table: tuple[int, ...], taken: Sequence[Live]
    ) -> str:
        what = f"{in_words(tokens)} at position {start}"
        over = [one for one in self.live.values() if one.ended]
        suited = [one for one in (*taken, *over) if one.known[start : start + len(tokens)] == tokens]
        one = max(suited, key=lambda one: _alike(one.table, table), default=None)  # two may have these tokens
        if one is not None and not one.ended:
            return (
                f"Step {frame.step} has two chunks with {what}, but only {one.label} has these tokens there. Give each "
                "request at most one chunk"
            )
        if one is not None and one.ended == "cancelled" and one.absent:
            return (
                f"Step {frame.step} computes {what} for {one.label}, which was cancelled while it waited for blocks. "
                f"It had returned {counted(one.returned, 'token')} before. Remove a cancelled request from the waiting "
                "requests, too, also after a preemption"
            )
        if one is not None:
            return (
                f"Step {frame.step} computes {what} for {one.label}, which {_why_ended(one)}. Remove a request from "
                "the batch as soon as it is over or cancelled"
            )
        near = self._by_table(table, start)
        if near is None:
            return f"Step {frame.step} has a chunk with {what}, and no unfinished request has these tokens there"
        right = near.known[start : start + len(tokens)]
        has = f"has {in_words(right)} there" if right else f"has only {len(near.known)} tokens"
        return (
            f"Step {frame.step} has a chunk with {what}, and no unfinished request has these tokens there. By its "
            f"block_table it is a chunk of {near.label}, which {has} and whose next position is {near.cached}"
        )

    def _by_table(self, table: Sequence[int], start: int) -> Live | None:
        scores = [(_alike(one.table, table), one.number) for one in self.alive]
        best = max(scores, default=(0, 0))
        return self.live[best[1]] if best[0] else None

    def _whose(self, tokens: Sequence[int], start: int, table: Sequence[int]) -> str:
        suited = [one for one in self.live.values() if one.known[start : start + len(tokens)] == list(tokens)]
        one = max(
            suited, key=lambda one: (_alike(one.table, table), one.number), default=None
        )  # several may have these
        if one is None:
            return ""
        return f": the chunk with {in_words(tokens)} at position {start} is of {one.label}, which {_why_ended(one)}"

    def _how_shared(self, one: Live, two: Live) -> str:
        same = common(one.known, two.known)
        whole = same // self.trace.block_size
        if not same:
            return f"Their first tokens differ, so they can share no block. {FREED}"
        shared = f"at most {whole} whole blocks can be shared" if whole else "they can share no whole block"
        return f"They begin with {counted(same, 'equal token')}, so {shared}. {FREED}"

    def _given_twice(self, block: int) -> str:
        """What to do where a request was given a block twice: which requests shared it before, if any did."""
        for frame in reversed(self.frames[:-1]):
            users = [self.live[part.request].label for part in frame.parts if block in part.table]
            if len(users) > 1:
                return f"In step {frame.step}, {listed(users)} used this block together. {FREED}"
        return f"Take another block for each {self.trace.block_size} positions, and free a block only once"

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
            text += (
                f"{one.title} had written its own position {position} there in step {wrote[1]}, and it was overwritten"
            )
            if held is not None and held.request != one.number:
                other = self.live[held.request]
                text += f" by {other.label}. "
                text += (
                    f"{one.title} begins anew in step {frame.step}, so its blocks were free. Forget a block's prefix "
                    "when you free the block"
                    if part.again
                    else FREED
                )
            return text
        if wrote is not None:
            at = f"slot {wrote[0] % size} of block {wrote[0] // size}"
            return f"{text}{one.title} wrote that position to {at} in step {wrote[1]}: check its block_table"
        had = [each for each in self.overwritten.get(slot, []) if each.key == one.keys[position]]
        if had and held is not None:
            return (
                f"{text}Before, the slot held position {position} of {self._name(had[-1].request, one)}, whose "
                f"tokens are "
                f"the same up to there, so the block was shared. {self.live[held.request].title} overwrote it. {FREED}"
            )
        if held is not None and held.request != one.number:
            other = self.live[held.request]
            same = common(one.known, other.known)
            if held.position == position and same and position >= same:
                return (
                    f"{text}The tokens of both requests are equal at positions 0 .. {same - 1} only. So only the first "
                    f"{same // size} blocks can be shared, those that are whole before position {same}"
                )
        return (
            f"{text}{one.title} has never computed its position {position}. Compute positions in order, and "
            "skip only whole blocks that another request has computed in an earlier step, with the same tokens from "
            "position 0 to the block's end"
        )

    def _name(self, number: int, one: Live) -> str:
        if number == one.number:
            return "the same request"
        other = self.live[number]
        how = {"": "", "cancelled": ", which was cancelled"}.get(other.ended, ", which is over")
        return other.label + how

    def _late(self, frame: Frame, number: int, tokens: list[int]) -> str:
        if number not in self.live:
            return f"Step {frame.step} returned {in_words(tokens)} for a request that was not submitted yet"
        one = self.live[number]
        why = {
            "cancelled": "which was cancelled before",
            "eos": f"which was over: its last token was model.eos ({self.progress.eos})",
        }.get(one.ended, f"which was over: it has its max_new_tokens = {one.most} tokens")
        return f"Step {frame.step} returned {in_words(tokens)} for {one.label}, {why}"

    def _too_many(self, frame: Frame, one: Live, part: Part | None, tokens: list[int]) -> str:
        if len(tokens) > 1:
            return (
                f"Step {frame.step} returned {len(tokens)} tokens for {one.label}. A step gives a request at most one"
            )
        if part is None:
            return f"Step {frame.step} returned {in_words(tokens)} for {one.label}, which had no chunk in it"
        again = " Do not return tokens again after a preemption." if part.again or one.starts > 1 else ""
        return (
            f"Step {frame.step} returned {in_words(tokens)} for {one.label}, but its chunk ends at position "
            f"{part.end - 1} "
            f"of {len(one.known)} tokens, so the logits are not those of its next token.{again} Return a token only "
            f"when "
            "the chunk ends with the request's last token"
        )


def _why_ended(one: Live) -> str:
    return {"cancelled": "was cancelled", "eos": "is over, because its last token is model.eos"}.get(
        one.ended, f"is over, because it has its max_new_tokens = {one.most} tokens"
    )


def _alike(one: Sequence[int], two: Sequence[int]) -> int:
    """In how many places two tables name the same block."""
    return sum(a == b for a, b in zip(one, two, strict=False))


def common(one: Sequence[int], two: Sequence[int]) -> int:
    """How many tokens two requests have in common, from the first on."""
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def in_words(tokens: Sequence[int]) -> str:
    if len(tokens) == 1:
        return f"token {tokens[0]}"
    return f"tokens {list(tokens)}" if len(tokens) <= 4 else f"{len(tokens)} tokens"
