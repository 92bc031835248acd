"""Pairs of models on a small grid, and the exact distribution of what is written with them: by the target alone, by
speculative decoding, and by people's mistakes.

All probabilities are multiples of 1/L with L a power of two, so floats hold each of them, and each product, exactly.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from grader.exercise import Draw

Tokens = tuple[int, ...]
Row = tuple[int, ...]  # how many L-th parts each token has
Spread = dict[Tokens, float]  # outputs, and the probability of each


@dataclass(frozen=True)
class Way:
    """How drafts are accepted and refused. The right way, with one thing changed for a mistake.

    accept: by p/q (ratio), the product of those so far (product), with one number for the whole round (one number), by p
    over the q of the round's first draft (first q), by q/p (inverse), p, where p > q (greater), where p >= q (at_least),
    where p > 0 (possible), or all. refused: whence the token after a refusal. row, bonus: how many rows behind the right one p is looked up for a
    draft, and for the token after all drafts ("draft": drawn from the draft's row). greedy: drafts are the likeliest
    tokens. blind: every draft of a round is drawn from the row after the context, but judged by its own. goes_on: drafts behind a refused one
    are judged, too. short: no more drafts than tokens are missing but one. sees: how much of its context draft is
    called with (all, all but the last token, the last token).
    """

    accept: str = "ratio"
    refused: str = "residual"
    row: int = 0
    bonus: str = "target"
    greedy: bool = False
    blind: bool = False
    goes_on: bool = False
    short: bool = False
    sees: str = "all"


RIGHT = Way()
SEVERAL = ("product", "one number", "first q")  # of `accept`: what a single draft does not show
SAME = Way(accept="p")  # accepts a draft as often as the target draws the same token
CONTEXTS = (
    Way(sees="all but the last"),
    Way(sees="the last"),
)  # which change no output, but how often drafts are refused
MISTAKES = {  # what the outputs are distributed like, and what to do
    Way(accept="greater"): ("a draft is accepted exactly where p > q", "Accept it with probability min(1, p[x] / q[x])."),
    Way(accept="at_least"): ("a draft is accepted exactly where p >= q", "Accept it with probability min(1, p[x] / q[x])."),
    Way(accept="p"): ("a draft is accepted with probability p[x]", "Divide by q[x]: the draft was drawn with that "
                      "probability already."),
    Way(accept="inverse"): ("a draft is accepted with probability min(1, q[x] / p[x])", "It is p[x] / q[x], the target's "
                            "over the draft's."),
    Way(accept="possible"): ("a draft is accepted wherever p[x] > 0", "Accept it with probability min(1, p[x] / q[x])."),
    Way(accept="all"): ("every draft is accepted", "Accept it with probability min(1, p[x] / q[x])."),
    Way(accept="product"): (
        "a draft is accepted with the product of the ratios p/q of all drafts so far",
        "The earlier drafts have been accepted already. Use this draft's own ratio alone.",
    ),
    Way(accept="one number"): (
        "one random number decides about all drafts of a round",
        "Draw a new number for each draft: the one that accepted a draft is known to be below its ratio.",
    ),
    Way(accept="first q"): (
        "the probability of each draft of a round is divided by the first draft's row of q",
        "Keep the row of q that each draft was drawn from, and use that row for this draft.",
    ),
    Way(refused="target"): ("the token after a refusal is drawn from p itself", "Draw it from norm(max(0, p - q)). "
                            "Accepted drafts have already given each token min(p, q)."),
    Way(refused="draft"): ("the token after a refusal is drawn from q again", "Draw it from norm(max(0, p - q))."),
    Way(refused="without"): ("the token after a refusal is drawn from p without the refused token", "Draw it from "
                             "norm(max(0, p - q))."),
    Way(refused="absolute"): ("the token after a refusal is drawn from |p - q|", "Set negative differences to 0: max(0, p - q)."),
    Way(refused="reversed"): ("the token after a refusal is drawn from norm(max(0, q - p))", "It is p - q, the target's "
                              "minus the draft's."),
    Way(refused="last q"): (
        "the token after a refusal is drawn from max(0, p - q) with q of the round's last draft",
        "Take the row of q that the refused draft was drawn from.",
    ),
    Way(refused="raw"): ("max(0, p - q) is not divided by its sum before a token is drawn", "Divide it by its sum, or "
                         "multiply your random number by the sum."),
    Way(refused="even"): ("after a refusal all tokens with p > q have the same probability", "Give each token its share "
                          "of the sum of max(0, p - q)."),
    Way(refused="likeliest"): ("the token after a refusal is the likeliest of max(0, p - q)", "Draw it, with "
                               "probabilities norm(max(0, p - q))."),
    Way(refused="likeliest of p"): ("the token after a refusal is the target's likeliest", "Draw it from "
                                    "norm(max(0, p - q))."),
    Way(refused="kept with one more"): (
        "the refused draft stays in the output before the token that replaces it",
        "Leave it out. Draw a token from norm(max(0, p - q)) in its place.",
    ),
    Way(refused="same number"): (
        "the random number that refuses a draft also draws the token after it",
        "Draw a new number: the old one is known to be at least p[x] / q[x].",
    ),
    Way(bonus="own"): (
        "the token after all accepted drafts is drawn from the row that the last draft was drawn from",
        "Draw it from the target's last row.",
    ),
    Way(refused="kept"): ("the refused draft stays in the output", "Leave it out. Draw a token from norm(max(0, p - q)) in "
                          "its place."),
    Way(row=-1): ("each draft is judged by the target's row before the right one", "Row i of target(tokens) is the "
                  "distribution of the token after tokens[:i + 1]. A draft at index j is judged by row j - 1."),
    Way(row=1): ("each draft is judged by the target's row after the right one", "Row i of target(tokens) is the "
                 "distribution of the token after tokens[:i + 1]. A draft at index j is judged by row j - 1."),
    Way(bonus="draft"): ("the token after all accepted drafts is drawn from the draft's row", "Draw it from the target's "
                         "last row."),
    Way(bonus="before"): ("the token after all accepted drafts is drawn from the row of the last draft", "Draw it from the "
                          "target's last row, which follows all drafts."),
    Way(bonus="likeliest"): ("the token after all accepted drafts is the target's likeliest", "Draw it from the target's "
                             "last row."),
    Way(greedy=True): ("each draft is the draft's likeliest token", "Draw it from the draft's row. The rule needs drafts "
                       "that have probability q[x]."),
    Way(blind=True): ("every draft of a round is drawn from the row after the context, but judged by its own", "Call draft on the context and the "
                      "drafts so far, and draw from its last row."),
    Way(goes_on=True): ("drafts behind a refused one are judged, too", "End the round at the first refusal: the later drafts "
                        "follow a token that is not there."),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Table:
    """A target and a draft: the rows after the prompt and each of its continuations, in L-th parts."""

    levels: int
    prompt: Tokens
    new: int
    k: int
    target: dict[Tokens, Row]
    draft: dict[Tokens, Row]

    @property
    def vocabulary(self) -> int:
        return len(self.target[()])

    def right(self) -> Spread:
        """What the target alone writes."""
        found: Spread = {(): 1.0}
        for _ in range(self.new):
            found = {(*tokens, x): mass * count / self.levels
                     for tokens, mass in found.items() for x, count in enumerate(self.target[tokens]) if count}  # fmt: skip
        return found

    def written(self, way: Way = RIGHT) -> Spread:
        """What is written in this way, and with which probability each."""
        return self._from((), way, {})[0]

    def rounds(self, way: Way = RIGHT) -> float:
        """The mean number of calls of the target."""
        return self._from((), way, {})[1]

    def row(self, of: dict[Tokens, Row], after: Tokens, back: int = 0) -> Row:
        """The row after a continuation of the prompt, or the one `back` tokens before it. See `in_box` for those of
        contexts that are none."""
        whole = (*self.prompt, *after)
        return self._after(of, whole[: len(whole) - back])

    def _drawn_from(self, after: Tokens, way: Way) -> Row:
        """The row that the draft after `after` is drawn from."""
        whole = (*self.prompt, *after)
        seen = {"all": whole, "all but the last": whole[:-1] or whole, "the last": whole[-1:]}[way.sees]
        return self._after(self.draft, seen)

    def _after(self, of: dict[Tokens, Row], context: Tokens) -> Row:
        known = of.get(context[len(self.prompt) :]) if len(context) >= len(self.prompt) else None
        if known is None:
            number = zlib.crc32(",".join(map(str, context)).encode()) % len(of)
            known = next(itertools.islice(of.values(), number, None))
        return known

    def _from(self, before: Tokens, way: Way, known: dict[Tokens, tuple[Spread, float]]) -> tuple[Spread, float]:
        """What follows after `before`, and the mean number of rounds that it takes."""
        left = self.new - len(before)
        if left <= 0:
            return {(): 1.0}, 0.0
        if before in known:
            return known[before]
        found: Spread = {}
        rounds = 1.0
        for tokens, mass in self._round(before, min(self.k, left - 1) if way.short else self.k, way).items():
            after, more = self._from((*before, *tokens)[: self.new], way, known)
            rounds += mass * more
            for rest, share in after.items():
                _add(found, (*tokens, *rest)[:left], mass * share)
        known[before] = found, rounds
        return known[before]

    def _round(self, before: Tokens, drafts: int, way: Way) -> Spread:
        """The tokens of one round, and the probability of each; by trying all drafts and all that becomes of them."""
        found: Spread = {}
        for drafted, mass in self._drafted(before, drafts, way).items():
            running: Spread = {(): mass}  # tokens of rounds that have not ended
            product = least = 1.0  # of the ratios so far
            first = self.row(self.draft, before)
            last = self._drawn_from((*before, *drafted[:-1]), way)
            for at, x in enumerate(drafted):
                context = (*before, *drafted[:at])
                p = self.row(self.target, (*context, x) if way.row > 0 else context, max(0, -way.row))
                q = self._drawn_from(context, way)
                product *= p[x] / q[x] if q[x] else 1.0
                divisor = first[x] if way.accept == "first q" else q[x]
                accepted = self._chance(way.accept, p[x], divisor, product, least)
                least = min(least, p[x] / q[x] if q[x] else 1.0)
                ended: Spread = {}
                going: Spread = {}
                for tokens, share in running.items():
                    _add(going, (*tokens, x), share * accepted)
                    for y, part in enumerate(
                        self._after_refusal(way.refused, p, last if way.refused == "last q" else q, x, accepted)
                    ):
                        after = (*tokens, x, y) if way.refused == "kept with one more" else (*tokens, y)
                        _add(going if way.goes_on else ended, after, share * (1 - accepted) * part)
                running = going
                for tokens, share in ended.items():
                    _add(found, tokens, share)
            for tokens, share in running.items():
                for y, part in enumerate(self._bonus((*before, *drafted), drafts, way)):
                    _add(found, (*tokens, y), share * part)
        return found

    def _drafted(self, before: Tokens, drafts: int, way: Way) -> Spread:
        found: Spread = {(): 1.0}
        for _ in range(drafts):
            longer: Spread = {}
            for tokens, mass in found.items():
                q = self._drawn_from(before if way.blind else (*before, *tokens), way)
                for x, share in enumerate(_likeliest(q) if way.greedy else self._picked(q)):
                    _add(longer, (*tokens, x), mass * share)
            found = longer
        return found

    def _chance(self, accept: str, p: int, q: int, product: float, least: float) -> float:
        """The probability to accept, as numbers on the grid give it."""
        if accept == "one number":  # which is known to be below the least ratio so far
            below = [digit for digit in range(self.levels) if digit + 0.5 < least * self.levels]
            return sum(digit + 0.5 < (p / q if q else p > 0) * self.levels for digit in below) / max(1, len(below))
        ratio = {
            "product": product, "first q": p / q if q else p > 0,
            "ratio": p / q if q else p > 0, "p": p / self.levels, "inverse": q / p if p else 1, "greater": p > q,
            "at_least": p >= q, "possible": p > 0, "all": 1.0,
        }[accept]  # fmt: skip
        return sum(digit + 0.5 < ratio * self.levels for digit in range(self.levels)) / self.levels

    def _after_refusal(self, refused: str, p: Row, q: Row, x: int, accepted: float) -> Sequence[float]:
        """The probability of each token after the refusal of x."""
        more = [max(0, a - b) for a, b in zip(p, q, strict=True)]
        match refused:
            case "kept":
                return _likeliest([number == x for number in range(len(p))])
            case "likeliest":
                return _likeliest(more)
            case "likeliest of p":
                return _likeliest(p)
            case "raw":
                return self._picked(more, self.levels)
            case "same number":
                return self._picked(more, above=accepted)
        weights = {
            "residual": more, "kept with one more": more, "last q": more if any(more) else p, "target": p, "draft": q, "without": [*p[:x], 0, *p[x + 1 :]], "even": [a > 0 for a in more],
            "absolute": [abs(a - b) for a, b in zip(p, q, strict=True)],
            "reversed": [max(0, b - a) for a, b in zip(p, q, strict=True)],
        }[refused]  # fmt: skip
        return self._picked(weights)

    def _bonus(self, context: Tokens, drafts: int, way: Way) -> Sequence[float]:
        if way.bonus == "draft":
            return self._picked(self.row(self.draft, context))
        if way.bonus == "own":
            return self._picked(self.row(self.draft, context, 1 if drafts else 0))
        p = self.row(self.target, context, 1 if way.bonus == "before" and drafts else 0)
        return _likeliest(p) if way.bonus == "likeliest" else self._picked(p)

    def _picked(self, weights: Sequence[float], whole: float = 0.0, above: float = 0.0) -> tuple[float, ...]:
        return _on_grid(self.levels, tuple(weights), whole, above)


@cache
def _on_grid(levels: int, weights: tuple[float, ...], whole: float, above: float) -> tuple[float, ...]:
    """The probability of each token, drawn by cumulative sums with numbers on the grid that are greater than `above`; what
    is left is the last token's."""
    ends = list(itertools.accumulate(weight / (whole or sum(weights) or 1) for weight in weights))
    ends[-1] = 1.0
    digits = [digit + 0.5 for digit in range(levels) if digit + 0.5 > above * levels]
    below = [sum(digit < end * levels for digit in digits) for end in ends]
    return tuple((end - begin) / max(1, len(digits)) for begin, end in itertools.pairwise([0, *below]))


def _add(spread: Spread, tokens: Tokens, mass: float) -> None:
    if mass:
        spread[tokens] = spread.get(tokens, 0.0) + mass


def _likeliest(weights: Sequence[float]) -> list[float]:
    best = max(range(len(weights)), key=weights.__getitem__)
    return [float(number == best) for number in range(len(weights))]


# ---- drawing them


def tables(draw: Draw, levels: int, k: int, new: int, count: int) -> list[Table]:
    """So many tables, so that every mistake that can show on this grid shows in one of them."""
    generator = draw.generator(f"tables {levels} {k} {new}")
    vocabulary = 4 if levels == 4 else 3
    while True:
        found = []
        for number in range(count):
            prompt = tuple(int(token) for token in generator.integers(0, vocabulary, 1 + number + k // 3))
            after = list(contexts(vocabulary, new + k))
            target, draft = (
                {
                    context: rows[at]
                    for context, at in zip(after, generator.integers(len(rows), size=len(after)), strict=True)
                }
                for rows in _rows(generator, levels, vocabulary)
            )
            found.append(Table(levels, prompt, new, k, target, draft))
        if _told_apart(found):
            return found


def _told_apart(found: Sequence[Table]) -> bool:
    levels, k, new = found[0].levels, found[0].k, found[0].new
    if 1 < new <= k:
        rounds = [each.rounds() for each in found]
        for way in CONTEXTS:
            more = [each.rounds(way) for each in found]
            if any(mean < right for mean, right in zip(more, rounds, strict=True)) or (new == k and more == rounds):
                return False  # which draft rows it calls up must not be luck that makes up for a wrong context
        if new == k and [each.rounds(SAME) for each in found] == rounds:
            return False
    right = [each.right() for each in found]
    return all(
        any(each.written(way) != spread for each, spread in zip(found, right, strict=True))
        for way in telling(levels, k, new)
    )


def _rows(generator: np.random.Generator, levels: int, vocabulary: int) -> tuple[list[Row], list[Row]]:
    """Rows of a target and of a draft. Each of these with each of those is on the grid, so that drafts from a wrong
    context, which are no worse than others, leave the distribution as it is."""
    kinds = _pairs(levels, vocabulary)
    target: list[Row] = []
    draft: list[Row] = []
    for number in range(40):
        pairs = kinds[number % len(kinds)]
        p, q = pairs[int(generator.integers(len(pairs)))]
        if all(_on_the_grid(p, other, levels) for other in set(draft)) and all(
            _on_the_grid(each, q, levels) for each in set(target)
        ):
            target.append(p)
            draft.append(q)
    return target, draft


def contexts(vocabulary: int, most: int) -> Iterator[Tokens]:
    """All continuations of at most so many tokens: shorter ones first, then in the order of their tokens."""
    for length in range(most + 1):
        yield from itertools.product(range(vocabulary), repeat=length)


def telling(levels: int, k: int, new: int) -> list[Way]:
    """The mistakes that are to be seen on this grid: all that can be, but of long rounds those about several drafts."""
    hidden = {way for way in MISTAKES if new <= k and way.bonus != "target"}
    several = {way for way in MISTAKES if way.blind or way.accept in SEVERAL or way.refused == "last q"}
    if new > k > 1:  # for who drafts nothing for the last place, and so has no two drafts in a round of fewer tokens
        return [replace(way, short=True) for way in MISTAKES if way in several]
    if min(new, k) == 1:
        hidden |= several
    hidden |= {way for way in MISTAKES if new == 1 and (way.goes_on or way.refused == "kept with one more")}
    hidden |= {way for way in MISTAKES if levels == 2 and way.refused in ("even", "same number")}
    if k > 2:
        hidden |= {way for way in MISTAKES if not (way.blind or way.goes_on or way.row)}
    return [way for way in MISTAKES if way not in hidden]


@cache
def _pairs(levels: int, vocabulary: int) -> list[list[tuple[Row, Row]]]:
    """Pairs of rows p and q whose ratios and residuals are on the grid: first those where a number decides both whether
    a draft is accepted and which token comes instead, then those whose residual is uneven, then all."""
    rows = [row for row in itertools.product(range(levels + 1), repeat=vocabulary) if sum(row) == levels]
    pairs = [(p, q) for p, q in itertools.product(rows, rows) if _on_the_grid(p, q, levels)]
    some = [pair for pair in pairs if any(0 < a < b for a, b in zip(*pair, strict=True))]
    both = [pair for pair in some if len(_more(*pair)) > 1]
    several = [pair for pair in pairs if len(_more(*pair)) > 1]
    uneven = [pair for pair in several if len(set(_more(*pair))) > 1]
    return [both or some, uneven or several, pairs]


def _more(p: Row, q: Row) -> list[int]:
    return [a - b for a, b in zip(p, q, strict=True) if a > b]


@cache
@cache
def _on_the_grid(p: Row, q: Row, levels: int) -> bool:
    ratios = all(b == 0 or a >= b or a * levels % b == 0 for a, b in zip(p, q, strict=True))
    return ratios and all(part * levels % sum(_more(p, q)) == 0 for part in _more(p, q))
