"""Where keys and values are kept: contiguous, in blocks, in shared blocks; and a cache of prefixes that evicts.

held(uses(40), at=3.0, longest=2048)          # positions that three kinds of cache keep at this time
routed(turns(30), blocks=400).hits            # the share of prompt blocks that a prefix cache had
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

BLOCK = 16  # positions


@dataclass(frozen=True)
class Use:
    """A request in the cache from `since` to `until`, in seconds: `system` tokens that all of a `group` begin with,
    then `own` tokens of its prompt, and an answer that grows to `answer` tokens."""

    since: float
    until: float
    group: int
    system: int
    own: int
    answer: int

    def tokens(self, at: float) -> int:
        """Positions that it really uses at this time; 0 where it is not there."""
        if not self.since <= at < self.until:
            return 0
        return self.system + self.own + int(self.answer * (at - self.since) / (self.until - self.since))


def uses(requests: int, seed: int = 1, groups: int = 3, system: int = 600) -> list[Use]:
    """Requests that come at random, ten a second; each group has a system prompt of its own."""
    source, now, made = random.Random(seed), 0.0, list[Use]()
    for _ in range(requests):
        now += source.expovariate(10.0)
        own, answer = (max(1, int(median * source.lognormvariate(0, 0.8))) for median in (200, 150))
        answer = min(answer, 700)
        made.append(Use(now, now + 0.02 * answer, source.randrange(groups), system, min(own, 700), answer))
    return made


@dataclass(frozen=True)
class Held:
    """Positions: really used, and kept by each kind of cache."""

    used: int
    contiguous: int
    paged: int
    shared: int


def held(of: Sequence[Use], at: float, longest: int, block: int = BLOCK) -> Held:
    """What is kept at this time. Contiguous caches keep the longest sequence for each, paged ones whole blocks, shared
    ones the full blocks of a group's system prompt once."""
    there = [(each, each.tokens(at)) for each in of if each.tokens(at)]
    paged = [ceil(tokens / block) * block for _, tokens in there]
    common: dict[int, list[int]] = defaultdict(list)
    for each, _ in there:
        common[each.group].append(each.system // block * block)
    twice = sum(sum(lengths) - max(lengths) for lengths in common.values())
    return Held(sum(tokens for _, tokens in there), longest * len(there), sum(paged), sum(paged) - twice)


@dataclass(frozen=True)
class Turn:
    """One turn of a talk: its whole prompt as blocks, each of which is named by what stands in it."""

    talk: int
    blocks: tuple[str, ...]


def turns(talks: int, seed: int = 1, most: int = 8, system: int = 32) -> list[Turn]:
    """Talks of up to `most` turns, in a random order; each prompt is all of the talk so far, and all share `system`
    blocks in front."""
    source = random.Random(seed)
    left = {talk: source.randint(2, most) for talk in range(talks)}
    said = {talk: [f"system {n}" for n in range(system)] for talk in range(talks)}
    made, open_talks = list[Turn](), list(range(min(talks, 10)))  # ten at a time
    following = len(open_talks)
    while open_talks:
        talk = source.choice(open_talks)
        said[talk] += [f"talk {talk}, block {len(said[talk]) + n}" for n in range(source.randint(2, 20))]
        made.append(Turn(talk, tuple(said[talk])))
        left[talk] -= 1
        if not left[talk]:
            open_talks.remove(talk)
            if following < talks:
                open_talks.append(following)
                following += 1
    return made


class PrefixCache:
    """A radix tree over blocks that keeps at most `blocks` of them; the leaf that was used longest ago goes first."""

    def __init__(self, blocks: int) -> None:
        self.blocks, self.clock = blocks, 0
        self.used: dict[tuple[str, ...], int] = {}  # a node is the path to it: when it was used last
        self.children: dict[tuple[str, ...], int] = defaultdict(int)

    def matched(self, prompt: tuple[str, ...]) -> int:
        """How many blocks of this prompt, from its beginning, are in the cache."""
        return next((n for n in range(len(prompt)) if prompt[: n + 1] not in self.used), len(prompt))

    def take(self, prompt: tuple[str, ...]) -> int:
        """Use what is there, add the rest, evict what is too much; how many blocks were there."""
        self.clock += 1
        found = self.matched(prompt)
        for n in range(len(prompt)):
            path = prompt[: n + 1]
            if path not in self.used:
                self.children[path[:-1]] += 1
            self.used[path] = self.clock
        while len(self.used) > self.blocks:
            leaf = min((path for path in self.used if not self.children[path]), key=lambda path: self.used[path])
            del self.used[leaf]
            self.children[leaf[:-1]] -= 1
        return found


@dataclass(frozen=True)
class Routed:
    """The share of all prompt blocks that need not be computed, and the busiest replica's requests over the mean."""

    hits: float
    busiest: float


def routed(of: Sequence[Turn], blocks: int, replicas: int = 1, by: str = "turn", weight: float = 4.0) -> Routed:
    """Replicas with a cache of `blocks` blocks each, and a router: `by` turn; by prefix, to the one that has the most
    of the prompt; or by both, which takes off `weight` blocks for each request that a replica had more than another.

    Raises ValueError for another rule.
    """
    if by not in ("turn", "prefix", "both"):
        raise ValueError(f"no router goes by {by!r}")
    caches, asked = [PrefixCache(blocks) for _ in range(replicas)], [0] * replicas
    found = whole = 0
    for number, turn in enumerate(of):
        chosen = number % replicas
        if by != "turn":
            had = [each.matched(turn.blocks) for each in caches]
            worth = [n - weight * ask if by == "both" else n for n, ask in zip(had, asked, strict=True)]
            chosen = max(range(replicas), key=lambda n: (worth[n], -n))
        asked[chosen] += 1
        found += caches[chosen].take(turn.blocks)
        whole += len(turn.blocks)
    return Routed(found / whole, max(asked) * replicas / sum(asked))
