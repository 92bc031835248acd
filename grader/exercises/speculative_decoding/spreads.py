"""Judges the distribution of what was written, exactly, and names the mistake that gives the same one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from grader import says, tally
from grader.exercises.speculative_decoding import runs as runs
from grader.exercises.speculative_decoding.runs import Call
from grader.exercises.speculative_decoding.tables import MISTAKES, SAME, Spread, Tokens
from grader.exercises.speculative_decoding.tried import (
    Tried,
    as_list,
    attempts,
    losing,
    must_be_whole,
    pictured,
    replayed,
)
from grader.lost import Lost
from grader.worlds.ranks import RankBench


def distribution(group: str) -> Callable[[RankBench], Any]:
    """The outputs have exactly the target's distribution, and no more drafts are refused than must be."""

    def judge(bench: RankBench) -> Any:
        every = list(attempts(bench, group))
        whole = [tried for tried in every if not any(run.over for run in tried.runs)]
        for tried in whole:
            must_be_whole(bench, tried)
            _raise_unsteady(bench, tried)
        for tried in whole:
            if _got(tried) != tried.table.right():
                raise _wrong_distribution(bench, tried, whole)
        for tried in every:
            must_be_whole(bench, tried)
        _raise_refusing(bench, every)
        return pictured(bench, group)

    return judge


def _got(tried: Tried) -> Spread:
    """The outputs and the probability of each. Exact, because levels are a power of 2."""
    found: Spread = {}
    for run in tried.runs:
        tokens = tried.output(run)
        assert tokens is not None
        found[tokens] = found.get(tokens, 0.0) + float(tried.table.levels) ** -len(run.digits)
    return found


def _raise_unsteady(bench: RankBench, tried: Tried) -> None:
    digits = {run.digits for run in tried.runs}
    if tried.steady and len(digits) == len(tried.runs) and sum(_got(tried).values()) == 1.0:
        return
    text = (
        "generate was called again with the same models, prompt and random numbers, and did something else. rng.random() "
        "must be the only source of random numbers, and nothing may be kept from one call to the next (a global, a "
        "mutable default argument, a cache)."
    )
    raise losing(bench, tried, "nondeterministic", text)


def _wrong_distribution(bench: RankBench, tried: Tried, every: Sequence[Tried]) -> Lost:
    table, got, right = tried.table, _got(tried), tried.table.right()
    before, token = _differs(got, right, tried.new)
    given = sum(mass for tokens, mass in right.items() if tokens[: len(before)] == before)
    shares = [sum(mass for tokens, mass in spread.items() if tokens[: len(before) + 1] == (*before, token)) / given
              for spread in (got, right)]  # fmt: skip
    mine, wanted = (str(Fraction(share).limit_denominator(2**40)) for share in shares)
    text = f"new token number {len(before) + 1} does not have the target's distribution. "
    after = f" and the new tokens {as_list(before)}" if before else ""
    text += f"After the prompt {as_list(table.prompt)}{after} the target's row is "
    text += f"p = {_row(table.target[before], table.levels)} and the draft's q = {_row(table.draft[before], table.levels)}. "
    text += (
        f"Over all random numbers, your function returns token {token} there with probability {mine}, not {wanted}. "
    )
    loss = losing(bench, tried, "wrong_result", text, f"token {token} with probability {wanted}", mine)
    calls = replayed(bench, tried, (*before, token) if shares[0] > shares[1] else before)
    because = _cause(bench, every, tried, calls[0] if calls else ())
    picture = runs.chart(*calls) if calls else loss.picture
    return Lost(replace(loss.diagnosis, message=loss.diagnosis.message + because), picture)


def _differs(got: Spread, right: Spread, new: int) -> tuple[Tokens, int]:
    """The first place where they differ: the output before it, and the token that is most too often there."""
    for length in range(1, new + 1):
        sums: dict[Tokens, float] = {}
        for spread, sign in ((got, 1), (right, -1)):
            for tokens, mass in spread.items():
                sums[tokens[:length]] = sums.get(tokens[:length], 0.0) + sign * mass
        worst = max(sums, key=lambda tokens: (sums[tokens], tokens))
        if sums[worst]:
            return worst[:-1], worst[-1]
    raise ValueError("these are equal")


def _row(row: Sequence[int], levels: int) -> str:
    return f"[{', '.join(str(Fraction(count, levels)) for count in row)}]"


def _cause(bench: RankBench, every: Sequence[Tried], tried: Tried, calls: Sequence[Call]) -> str:
    """What the runs show of the reason, and what to do."""
    if tried.others:
        return (
            f"Your code also used random numbers of {says.listed(tried.others)}. Use no other random numbers than those of "
            "rng.random()."
        )
    named = _mistake(bench, every)
    if named:
        return named
    lost = next((call for call in calls if call.tokens[: len(tried.prompt)] != tried.prompt), None)
    if lost is not None:
        return (
            f"Your function called {lost.who}({as_list(lost.tokens)}), which does not begin with the prompt "
            f"{as_list(tried.prompt)}. The rows depend on the whole context, so give it with every call."
        )
    return (
        "Go through one round by hand with these two rows: with which probability does a draft become each token, and is it "
        "accepted with probability min(1, p[x] / q[x])? After a refusal, the token comes from norm(max(0, p - q))."
    )


def _mistake(bench: RankBench, every: Sequence[Tried]) -> str:
    """The mistake that gives exactly these distributions, and those of the other check; "" where there is none or more
    than one."""
    others: list[Tried] = []
    with contextlib.suppress(Lost):  # they are another check's matter
        others += [each for each in attempts(bench, "short", "long") if all(each.output(run) for run in each.runs)]
    tables = [each for each in others or every if _known_tokens(each)]
    found = {
        said: mistake
        for mistake, said in MISTAKES.items()
        for way in (mistake, replace(mistake, short=True))
        if all(_got(each) == each.table.written(way) for each in tables)
    }
    if len(found) != 1 or not tables:
        return ""
    what, advice = next(iter(found))
    return f"The distributions of all {len(tables)} pairs of models are exactly those that come out if {what}. {advice}"


def _known_tokens(tried: Tried) -> bool:
    return all(0 <= token < tried.table.vocabulary for run in tried.runs for token in tried.output(run) or ())


def _raise_refusing(bench: RankBench, every: Sequence[Tried]) -> None:
    """Raise Lost where, in the mean over all ways, the target is called more often than the rule needs, or less often than
    any can. Only where an additional token after all drafts is of no use: that is another check's matter. For two tokens
    one call is enough if the first is the draft x, drawn from q: at most with probability sum(min(p, q))."""
    for tried in every:
        most, mine = tried.table.rounds(), _mean(tried)
        if tried.new > tried.k or tried.new == 1:
            continue
        tally.note("mean calls of the target", mine, most, "calls", where=tried.case.label)
        if mine == most:
            continue
        if mine < most:
            text = (
                f"on average over all random numbers, your function calls target {_number(mine)} times. With drafts that are "
                f"drawn from the rows of draft, no rule needs fewer than {_number(most)} calls. Draw each draft from the last "
                "row of draft, and take the target's rows only from calls of target."
            )
            raise losing(bench, tried, "wrong_result", text, f"{_number(most)} calls", _number(mine))
        text = (
            "the output has the right distribution, but the target is called too often. On average over all random numbers, "
            f"your function calls target {_number(mine)} times, and the rule needs {_number(most)}. "
        )
        if all(_mean(each) == each.table.rounds(SAME) for each in every if 1 < each.new <= each.k):
            text += (
                "Your drafts are accepted exactly as often as a token that is drawn from p happens to be the draft. "
                "Compare a random number with p[x] / q[x] instead."
            )
        else:
            worst = max(run.target for run in tried.runs)
            text += "Does draft get the whole context? Is a draft accepted with probability min(1, p[x] / q[x])?"
            if worst > tried.new:
                text = (
                    f"one run called target {worst} times for {says.counted(tried.new, 'token')}. Call it once a round, on the "
                    "context and all drafts. Each round gives at least one token."
                )
        raise losing(bench, tried, "too_many_rounds", text, f"{_number(most)} calls", _number(mine))


def _mean(tried: Tried) -> float:
    return sum(run.target * float(tried.table.levels) ** -len(run.digits) for run in tried.runs)


def _number(value: float) -> str:
    fraction = Fraction(value).limit_denominator(2**40)
    return str(fraction) if fraction.denominator > 1 else f"{value:g}"
