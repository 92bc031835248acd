"""Speculative decoding on two small models of a play: what each round drafted, what was kept, and how often the large
one was called.

Each model predicts the next byte from the bytes before it, by counting what followed them in the text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from courselib import language
from courselib.svg import COLOURS, FAINT, INK, WIDTH, Drawn, Plot, caption, document

Rows = Any  # float64 [tokens, 256]
Model = Callable[[Sequence[int]], Rows]
Generate = Callable[..., list[int]]
LOOKS = {  # of a byte: the fill, its edge, the dash of the edge, and what it is
    "accepted": ("#cfe3f3", "#0072b2", "", "an accepted draft"),
    "refused": ("#fbe0d5", "#b23a00", "3 2", "a draft that is refused or comes too late"),
    "own": ("#8fd3b6", "#1f6b4f", "", "decided by the target"),
}
BOX, ROW, LEFT, MOST_ROUNDS = 17, 24, 92, 24


@cache
def letters(order: int) -> Model:
    """The model that looks at the last `order` bytes, and at fewer where they are not in the play.

    Called with n bytes it returns the distributions of the byte after each beginning: float64 [n, 256].
    """
    text = language.TEXT.read_bytes()
    counts: dict[bytes, Counter[int]] = defaultdict(Counter)
    for size in range(order + 1):
        for at in range(size, len(text)):
            counts[text[at - size : at]][text[at]] += 1
    known: dict[bytes, Rows] = {}

    def row(context: bytes) -> Rows:
        while context not in counts:
            context = context[1:]
        if context not in known:
            known[context] = np.zeros(256)
            for byte, count in counts[context].items():
                known[context][byte] = count / counts[context].total()
        return known[context]

    def model(tokens: Sequence[int]) -> Rows:
        whole = bytes(tokens)
        return np.array([row(whole[max(0, end - order) : end]) for end in range(1, len(whole) + 1)])

    return model


@dataclass(frozen=True)
class Round:
    """One call of the target: where its drafts begin, the drafts, and the bytes that the round gave."""

    begin: int
    drafts: bytes
    gave: bytes

    @property
    def accepted(self) -> int:
        """How many drafts are among the bytes that it gave."""
        pairs = zip(self.drafts, self.gave, strict=False)
        return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(self.drafts), len(self.gave)))


@dataclass(frozen=True)
class Written(Drawn):
    """A text that was written with two models, round by round."""

    prompt: str
    text: str
    rounds: tuple[Round, ...]
    drafted: int  # calls of the draft

    def __str__(self) -> str:
        calls = len(self.rounds)
        kept = sum(one.accepted for one in self.rounds)
        tried = sum(len(one.drafts) for one in self.rounds)
        return (
            f"{self.prompt}{self.text}\n\n{len(self.text)} bytes with {calls} calls of the target (plain decoding: "
            f"{len(self.text)}) and {self.drafted} of the draft; {kept} of {tried} drafts were accepted."
        )

    def picture(self) -> Plot:
        title = f"{len(self.rounds)} calls of the target for {len(self.text)} bytes"
        parts, x = [], 16.0
        for fill, edge, dash, words in LOOKS.values():
            parts += [_box(x, 38, fill, edge, dash, ""), caption(x + 22, 50, words, "start")]
            x += 40 + 6.2 * len(words)
        y, whole = 70.0, self.prompt
        room = max([len(one.drafts) + 1 for one in self.rounds] or [1])
        for number, one in enumerate(self.rounds, 1):
            whole += one.gave.decode("ascii", "replace")
            if number > MOST_ROUNDS:
                continue
            parts.append(caption(16, y + 12, f"round {number}", "start", INK, 12))
            kept, x = one.accepted, float(LEFT)
            for at, byte in enumerate(one.drafts):
                parts.append(_box(x, y, *LOOKS["accepted" if at < kept else "refused"][:3], _sign(byte)))
                x += BOX + 3
            for byte in one.gave[kept:]:
                parts.append(_box(x + 6, y, *LOOKS["own"][:3], _sign(byte)))
                x += BOX + 3
            x = LEFT + (BOX + 3) * room + 22
            said = f"{len(one.gave)} byte{'s' * (len(one.gave) != 1)}"
            parts.append(caption(x, y + 12, said, "start", FAINT, 12))
            tail = "".join(_sign(byte) for byte in whole.encode("ascii", "replace"))
            most = int((WIDTH - 16 - x - 60) / 7.5)
            if most > 4:
                shown = tail if len(tail) <= most else "…" + tail[1 - most :]
                parts.append(caption(WIDTH - 16, y + 12, shown, "end", FAINT, 12))
            y += ROW
        if len(self.rounds) > MOST_ROUNDS:
            parts.append(caption(16, y + 12, f"and {len(self.rounds) - MOST_ROUNDS} more rounds", "start"))
            y += ROW
        y += 12
        longest = max(len(self.text), len(self.rounds), 1)
        for words, calls, fill in (
            ("these rounds", len(self.rounds), COLOURS[0]),
            ("plain decoding", len(self.text), "#9aa5b1"),
        ):
            wide = (WIDTH - LEFT - 180) * calls / longest
            parts.append(caption(16, y + 12, words, "start", INK, 12))
            parts.append(f'<rect x="{LEFT + 20}" y="{y + 1:.1f}" width="{wide:.1f}" height="14" fill="{fill}"/>')
            parts.append(caption(LEFT + 26 + wide, y + 12, f"{calls} calls of the target", "start", INK, 12))
            y += ROW
        return Plot(document(title, parts, y + 8), title)


def written(
    generate: Generate, target: Model, draft: Model, prompt: str, length: int, k: int = 4, seed: int = 0
) -> Written:
    """What `generate` writes after the prompt (ASCII), and its rounds, as its calls show them."""
    start = list(prompt.encode("ascii"))
    calls: list[tuple[str, bytes]] = []

    def watched(who: str, model: Model) -> Model:
        def call(tokens: Sequence[int]) -> Rows:
            calls.append((who, bytes(tokens)))
            return model(tokens)

        return call

    rng = np.random.default_rng(seed)
    new = generate(watched("target", target), watched("draft", draft), list(start), length, k, rng)
    whole = bytes([*start, *new])
    asked: list[tuple[int, bytes]] = []
    begin: int | None = None
    for who, tokens in calls:
        if who == "draft":
            begin = len(tokens) if begin is None else begin
        else:
            asked.append((len(tokens) if begin is None else begin, tokens))
            begin = None
    ends = [*(at for at, _ in asked[1:]), len(whole)]
    rounds = [Round(at, tokens[at:], whole[at:end]) for (at, tokens), end in zip(asked, ends, strict=bool(asked))]
    drafted = sum(who == "draft" for who, _ in calls)
    return Written(prompt, bytes(new).decode("ascii", "replace"), tuple(rounds), drafted)


def _sign(byte: int) -> str:
    return {32: "␣", 10: "↵", 13: "↵"}.get(byte, chr(byte) if 32 < byte < 127 else "·")


def _box(x: float, y: float, fill: str, edge: str, dash: str, sign: str) -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    box = f'<rect x="{x:.1f}" y="{y:.1f}" width="{BOX}" height="{BOX}" rx="3" fill="{fill}" stroke="{edge}"{dashes}/>'
    return box + (caption(x + BOX / 2, y + 13, sign, "middle", INK, 12) if sign else "")
