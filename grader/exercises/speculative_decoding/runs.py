"""What was told of a submission's runs: every way that one call can go, or one run with all its calls; and its rounds.

A round is what lies between one call of the target and the next. Its drafts are the tokens that the target was given
behind those that had been decided before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grader.exercises.speculative_decoding.tables import Tokens
from grader.trace.gantt import Bar, Chart


@dataclass(frozen=True)
class Run:
    """One run of generate.

    `digits` say which numbers it drew, `tokens` what it returned (None for what is none), `kind` what that is where it
    is no list of ints, `over` what it took too much of ("numbers" or "calls"). `kept`: the prompt is as it was. `target`
    and `draft` are numbers of calls, `longest` the most tokens of one, `drawn` the numbers drawn before each of target.
    """

    digits: Tokens
    tokens: Tokens | None
    kind: str
    over: str
    kept: bool
    target: int
    draft: int
    longest: int
    drawn: Tokens

    @classmethod
    def of(cls, told: Sequence[Any]) -> Run:
        digits, tokens, kind, over, kept, *counts = told
        target, draft, longest, drawn = counts
        given = None if tokens is None else tuple(tokens)
        return cls(tuple(digits), given, str(kind), str(over), bool(kept), target, draft, longest, tuple(drawn))

    def repeats(self, prompt: Tokens, new: int) -> bool:
        """Whether it returned the prompt before the new tokens."""
        tokens = self.tokens or ()
        return len(tokens) == len(prompt) + new and tokens[: len(prompt)] == prompt

    def output(self, prompt: Tokens, new: int, repeats: bool = False) -> Tokens | None:
        """Its first `new` tokens, without the prompt where it `repeats` that; None where there are not so many."""
        tokens = self.tokens
        if tokens is None or len(tokens) < new:
            return None
        return tokens[len(prompt) :] if repeats else tokens[:new]


@dataclass(frozen=True)
class Call:
    """One call of a model."""

    who: str
    tokens: Tokens

    @classmethod
    def of(cls, told: Sequence[Any]) -> Call:
        return cls(str(told[0]), tuple(told[1:]))


@dataclass(frozen=True)
class Round:
    """One call of the target: where its drafts begin in prompt and output, the drafts, how many of them are in the output,
    and the tokens that the round gave."""

    begin: int
    drafts: Tokens
    accepted: int
    gave: Tokens


def rounds(calls: Sequence[Call], prompt: Tokens, output: Tokens) -> list[Round]:
    """The rounds of a run that returned `output`, as its calls show them."""
    whole = (*prompt, *output)
    asked: list[tuple[int, Tokens]] = []  # of each call of the target: where drafts begin, and its tokens
    drafting: list[int] = []  # the tokens of each call of the draft since the target's last
    for call in calls:
        if call.who == "draft":
            drafting.append(len(call.tokens))
            continue
        begin = len(call.tokens) - len(drafting)  # where each call gave a draft; one may have been made for nothing
        asked.append((min(max([begin, *drafting[:1]]), len(call.tokens)), call.tokens))
        drafting = []
    found = []
    for number, (begin, tokens) in enumerate(asked):
        end = asked[number + 1][0] if number + 1 < len(asked) else len(whole)
        end = min(max(end, begin), len(whole))
        drafts, accepted = tokens[begin:], 0
        while accepted < min(len(drafts), end - begin) and drafts[accepted] == whole[begin + accepted]:
            accepted += 1
        found.append(Round(begin, drafts, accepted, whole[begin:end]))
    return found


def chart(calls: Sequence[Call], prompt: Tokens, output: Tokens) -> Chart:
    """Rounds as rows, and over them the places of the output: accepted, refused, and the target's own tokens."""
    found = Chart((), unit=" tokens", lines=False)
    found.words = {"done": "a draft that is accepted", "failed": "a draft that is refused or of no use",
                   "again": "a token that the target decides"}  # fmt: skip
    each = rounds(calls, prompt, output)[:MOST_ROUNDS]
    for number, one in enumerate(each, 1):
        lane = f"round {number}"
        found.lanes = (*found.lanes, lane)
        begin = float(one.begin - len(prompt))
        for at, token in enumerate(one.drafts):
            fate = "done" if at < one.accepted else "failed"
            own = at == one.accepted < len(one.gave)
            at_most = begin + at + (0.5 if own else 1.0)
            found.bars.append(Bar(lane, begin + at, at_most - 0.04, str(token), fate))  # type: ignore[arg-type]
        for at in range(one.accepted, len(one.gave)):
            since = begin + at + (0.5 if at < len(one.drafts) else 0.0)
            found.bars.append(Bar(lane, since, begin + at + 0.96, str(one.gave[at]), "again"))
    found.lanes = found.lanes or ("no call of the target",)
    found.end = max([1.0, float(len(output)), *(bar.end for bar in found.bars)])
    many = sum(call.who == "target" for call in calls)
    found.subtitle = (
        f"{many} call{'s' * (many != 1)} of the target for {len(output)} tokens. Plain decoding makes {len(output)}."
    )
    if many > MOST_ROUNDS:
        found.subtitle += f" The first {MOST_ROUNDS} rounds are shown."
    return found


MOST_ROUNDS = 16
