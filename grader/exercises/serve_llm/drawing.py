"""Fresh requests whose answers are known: prompts are drawn until the model's own answer is as long as a trace wants it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from grader.serving.model import VOCABULARY, alone
from grader.serving.run import Event, Request, Trace

LEAST_GAP = 1e-6  # between the two largest logits: what float64 may lose on the way is a millionth of it
MS = 2000  # ticks
UNUSUAL = 0.15  # from half of the tokens that requests may have


@dataclass(frozen=True)
class Want:
    """A request: tokens of its prompt, of which the first are `prefix`, and `new` tokens that it returns. With `eos`
    the last of these is model.eos and more were allowed; otherwise none is. `spread`: one with eos may return so many more.
    `free`: it ends as it may, with eos or with `new` tokens."""

    length: int
    new: int
    prefix: tuple[int, ...] = ()
    eos: bool = False
    spread: int = 2
    free: bool = False

    @property
    def candidates(self) -> int:
        """How many prompts are tried at a time."""
        return 1 if self.free or len(self.prefix) == self.length else 24 if self.eos else 4

    @property
    def longest(self) -> int:
        return self.new + self.spread * self.eos


@dataclass(frozen=True)
class Drawn:
    prompt: tuple[int, ...]
    most: int
    right: tuple[int, ...]


def tokens(generator: np.random.Generator, count: int) -> tuple[int, ...]:
    return tuple(int(one) for one in generator.integers(1, VOCABULARY, count))


def different(generator: np.random.Generator, count: int) -> tuple[int, ...]:
    """Tokens of which none comes twice."""
    return tuple(int(one) for one in 1 + generator.permutation(VOCABULARY - 1)[:count])


def _first(generator: np.random.Generator, wants: Sequence[Want]) -> list[int]:
    """A token for each request that comes behind its prefix: prompts are equal as far as their prefixes are, and no
    further by luck."""
    while True:
        found = different(generator, len(wants))
        if not any(
            b.prefix[: len(a.prefix) + 1] == (*a.prefix, one)
            for a, one in zip(wants, found, strict=True)
            for b in wants
        ):
            return list(found)


def _prompt(generator: np.random.Generator, want: Want, first: int) -> tuple[int, ...]:
    rest = want.length - len(want.prefix)
    return (*want.prefix, first, *tokens(generator, rest - 1)) if rest else want.prefix


def draw(
    generator: np.random.Generator, wants: Sequence[Want], ends: Sequence[int] = range(VOCABULARY)
) -> tuple[int, int, list[Drawn]]:
    """The seed of a model, the token that is its eos, and a request for each that is wanted.

    Which token is the eos is decided last, of `ends`: it ends the requests that are to end by it, about half of those that may,
    and no other.
    """
    while True:
        seed = int(generator.integers(2**31))
        first = _first(generator, wants)
        tried = [at for at, want in enumerate(wants) for _ in range(want.candidates)]
        prompts = [_prompt(generator, wants[at], first[at]) for at in tried]
        answers = alone(prompts, [wants[at].longest for at in tried], seed)
        best: tuple[float, int, list[Drawn]] | None = None
        for eos in ends:
            found: dict[int, Drawn] = {}
            for at, prompt, answer, gaps in zip(tried, prompts, *answers, strict=True):
                if at not in found and (one := _fits(wants[at], prompt, answer, gaps, eos)):
                    found[at] = one
            share = sum(len(one.right) for one in found.values()) / (sum(one.most for one in found.values()) or 1)
            usual = abs(share - 0.5) if any(want.free for want in wants) else 0.0
            if len(found) == len(wants) and usual < (best[0] if best else UNUSUAL):
                best = usual, eos, [found[at] for at in range(len(wants))]
        if best:
            return seed, best[1], best[2]


def _fits(want: Want, prompt: tuple[int, ...], answer: list[int], gaps: list[float], eos: int) -> Drawn | None:
    ends = answer.index(eos) + 1 if eos in answer else 0
    if want.free and min(gaps) >= LEAST_GAP and ends != 1:
        return Drawn(prompt, want.new, tuple(answer[: ends or want.new]))
    if min(gaps) < LEAST_GAP or bool(ends) != want.eos or (ends and ends < want.new):
        return None
    count = ends or want.new
    return Drawn(prompt, count + (count // 2 + 1) * want.eos, tuple(answer[:count]))


@dataclass
class Script:
    """A trace that is being written: requests, and what happens."""

    generator: np.random.Generator
    blocks: int
    block_size: int
    budget: int
    wants: list[Want] = field(default_factory=list)
    names: list[Any] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ends: Sequence[int] = range(VOCABULARY)  # of which tokens model.eos is one
    one_list: bool = False

    def submit(self, want: Want, name: Any, at: float = 0.0, after: tuple[Any, int] | None = None) -> None:
        self.wants.append(want)
        self.names.append(name)
        self._happens("submit", name, at, after)

    def cancel(self, name: Any, at: float = 0.0, after: tuple[Any, int] | None = None) -> None:
        self._happens("cancel", name, at, after)

    def _happens(self, what: str, name: Any, at: float, after: tuple[Any, int] | None) -> None:
        when = (self.names.index(after[0]), after[1]) if after else None
        self.events.append(Event(what, self.names.index(name), int(at * MS), when))

    def drawn(self) -> tuple[Trace, tuple[tuple[int, ...], ...]]:
        """The trace, and the tokens that each of its requests must get."""
        seed, eos, found = draw(self.generator, self.wants, self.ends)
        requests = tuple(Request(name, one.prompt, one.most) for name, one in zip(self.names, found, strict=True))
        trace = Trace(
            self.blocks, self.block_size, self.budget, requests, tuple(self.events), seed, eos, self.one_list
        )  # fmt: skip
        return trace, tuple(one.right for one in found)
