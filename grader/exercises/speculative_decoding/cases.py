"""What a submission is called with: models on small grids, for every way that a run can go; and models with one-hot
rows, for counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from grader.exercise import Draw
from grader.exercises.speculative_decoding.tables import Row, Table, Tokens, tables
from grader.ranks.program import Strided
from grader.worlds.cases import Case

# L, k, new tokens, and how many pairs of models: fewer where there are many ways that a run can go. Who drafts nothing
# for the last place has two drafts in a round only where more than two tokens are new.
GRIDS = ((4, 1, 1, 3), (4, 1, 2, 3), (4, 2, 1, 3), (2, 1, 3, 3), (2, 2, 2, 3), (2, 2, 3, 1), (2, 3, 2, 1))
# k, new tokens, and every how many-th token the draft has wrong (0: none)
AGREEING = ((1, 7, 0), (2, 9, 0), (3, 8, 0), (5, 17, 0), (4, 3, 0), (3, 13, 4), (1, 8, 2))
WRONG = ((1, 6, 1), (3, 7, 1), (2, 9, 2), (3, 11, 3), (4, 12, 4), (4, 9, 2), (5, 10, 3))
LONG = AGREEING[2]  # has a prompt longer than a window that somebody may cut from it
LENGTHS = ((1, 1, 0), (5, 1, 0), (2, 2, 0), (3, 5, 0), (4, 6, 3), (7, 4, 0), (2, 10, 1))


@dataclass(frozen=True)
class Text:
    """What the target writes after the prompt, token by token, and where the draft is wrong (see `in_box.counted`)."""

    prompt: Tokens
    text: Tokens
    new: int
    k: int
    misses: int

    @property
    def output(self) -> Tokens:
        return self.text[: self.new]

    @property
    def most(self) -> int:
        """Calls of the target. A round gives the drafts before the first wrong one, at most k, and one more token."""
        gives = self.k + 1 if self.misses == 0 else min(self.misses, self.k + 1)
        return -(-self.new // gives)

    def draft(self, context: Tokens) -> int | None:
        """The draft's token after the beginning of the text that `context` is; None for any other context."""
        whole, at = (*self.prompt, *self.text), len(context) - len(self.prompt)
        if at < 0 or context != whole[: len(context)] or len(context) == len(whole):
            return None
        return whole[len(context)] + (self.misses > 0 and (at + 1) % self.misses == 0)

    @property
    def words(self) -> str:
        """What the draft does."""
        if self.misses == 0:
            return "the draft is right about every token"
        if self.misses == 1:
            return "the draft is wrong about every token"
        return f"the draft is wrong about every {_ORDINALS[self.misses]} token"


_ORDINALS = {2: "second", 3: "third", 4: "fourth"}


def cases(draw: Draw) -> Iterator[Case]:
    """One case is every way of one call on a grid, or one run with one-hot rows."""
    for levels, k, new, count in GRIDS:
        for number, table in enumerate(tables(draw, levels, k, new, count), 1):
            label = f"k = {k}, {_tokens(new)}, models {number}"
            arguments = (
                levels, list(table.prompt), new, k, _rows(table, table.target), _rows(table, table.draft), None,
            )  # fmt: skip
            yield Case("short" if levels == 4 else "long", label, (arguments,), expected=table, by="outcomes")
    for group, each in (("agreeing", AGREEING), ("wrong", WRONG), ("length", LENGTHS)):
        for number, (k, new, misses) in enumerate(each):
            prompt = 300 if group == "agreeing" and (k, new, misses) == LONG else 1 + number % 3
            yield _text(draw.generator(f"{group} {number}"), group, k, new, misses, prompt)


def _rows(table: Table, of: dict[Tokens, Row]) -> Strided:
    return Strided.of(np.array(list(of.values()), np.float64) / table.levels)


def _text(generator: np.random.Generator, group: str, k: int, new: int, misses: int, prompt: int) -> Case:
    """Prompt and text have even tokens, each once, and wrong drafts are odd: none is right in another place."""
    vocabulary = 2 * (prompt + new + k + 4)
    tokens = tuple(int(token) * 2 for token in generator.permutation(vocabulary // 2))
    told = Text(tokens[:prompt], tokens[prompt:], new, k, misses)
    label = f"k = {k}, {_tokens(new)}, where {told.words}" + f", after a prompt of {prompt} tokens" * (prompt > 3)
    arguments = list(told.prompt), new, k, list(told.text), misses, vocabulary
    return Case(group, label, (arguments,), expected=told, by="counted")


def _tokens(new: int) -> str:
    return f"{new} new token{'s' * (new != 1)}"
