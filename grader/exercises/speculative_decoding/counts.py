"""Judges how often a submission called the models and drew a number, and says why that was too often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grader import says, tally
from grader.exercises.speculative_decoding import runs as runs
from grader.exercises.speculative_decoding.runs import Call, Round, Run
from grader.exercises.speculative_decoding.tables import Tokens
from grader.exercises.speculative_decoding.tried import (
    Tried,
    attempts,
    losing,
    must_be_whole,
    overrun,
    pictured,
    rounds_of,
)
from grader.lost import Lost
from grader.worlds.ranks import RankBench


def calls(group: str) -> Callable[[RankBench], Any]:
    """With one-hot rows, the target is called at most as often as the rule needs."""

    def judge(bench: RankBench) -> Any:
        right: list[tuple[Tried, Tokens]] = []
        for tried in attempts(bench, group):
            run, text = tried.runs[0], tried.text
            must_be_whole(bench, tried)
            output = tried.output(run)
            assert output is not None
            if output != text.output:
                raise _other_text(bench, tried, output)
            tally.note("calls of the target", run.target, text.most, "calls", where=tried.case.label, reference=tried.new,
                       of="plain decoding")  # fmt: skip
            if run.target > text.most:
                raise _too_many(bench, tried, output)
            right.append((tried, output))
        for tried, output in right:
            _raise_unasked(bench, tried, output)
        return pictured(bench, group)

    return judge


def _raise_unasked(bench: RankBench, tried: Tried, output: Tokens) -> None:
    """Raise Lost where a draft is none of draft's, or a token of the output comes from no call of the target: there are few
    calls then because the models were looked into in another way."""
    whole, decided = (*tried.prompt, *output), len(tried.prompt)
    for number, one in enumerate(runs.rounds(_calls(tried), tried.prompt, output), 1):
        for at, token in enumerate(one.drafts):
            wanted = tried.text.draft((*whole[: one.begin], *one.drafts[:at]))
            if wanted not in (None, token):
                text = (
                    f"call {number} of target has the token {token} at index {one.begin + at}, where draft gives {wanted} "
                    f"with probability 1. Draw each draft from the last row of draft.{_stray(tried, output)}"
                )
                raise losing(bench, tried, "wrong_result", text, f"the draft {wanted}", f"{token}")
        if one.begin > decided:
            break
        if len(one.drafts) > tried.k:
            raise losing(bench, tried, "too_many_rounds", _over_k(tried, number, one), f"at most {tried.k}", f"{len(one.drafts)}",
                         runs.chart(_calls(tried), tried.prompt, output))  # fmt: skip
        decided = max(decided, one.begin + one.accepted + 1)
    if decided < len(whole):
        text = (
            f"output[{decided - len(tried.prompt)}] is right, but no call of target gave its row. Each round gives the "
            "accepted drafts, at most k, and one more token, all from the rows of one call of target."
        )
        raise losing(bench, tried, "sandbox_violation", text)


def _over_k(tried: Tried, number: int, one: Round) -> str:
    return (
        f"round {number} had {says.counted(len(one.drafts), 'draft')}, and k is {tried.k}. Draw at most k drafts before each "
        "call of target."
    )


def _other_text(bench: RankBench, tried: Tried, output: Tokens) -> Lost:
    at = next(at for at, token in enumerate(output) if token != tried.text.output[at])
    text = (
        "Not judged, because the output is not the target's text. Each row of the target gives one token probability 1 here: "
        f"output[{at}] must be {tried.text.output[at]}, but is {output[at]}."
    )
    stray = _stray(tried, output)
    if at < len(output) and _proposed(tried, output, at, output[at]):
        text += " The draft had proposed that token, which has probability 0 in the target's row. Refuse it."
    elif _proposed(tried, output, at, tried.text.output[at]):
        text = text.removeprefix("Not judged, because ") + (
            " The draft had proposed the right token. There p[x] = q[x] = 1, so accept it whatever rng.random() returns, up "
            "to the largest float below 1."
        )
    return losing(bench, tried, "wrong_result", f"{text}{stray}", f"{tried.text.output[at]}", f"{output[at]}",
                 runs.chart(_calls(tried), tried.prompt, output))  # fmt: skip


def _proposed(tried: Tried, output: Tokens, at: int, token: int) -> bool:
    """Whether that token was a draft at that place of the output."""
    place = len(tried.prompt) + at
    return any(
        one.begin <= place < one.begin + len(one.drafts) and one.drafts[place - one.begin] == token
        for one in runs.rounds(_calls(tried), tried.prompt, output)
    )


def _too_many(bench: RankBench, tried: Tried, output: Tokens) -> Lost:
    run, text = tried.runs[0], tried.text
    gives = -(-tried.new // text.most)
    said = (
        f"your function called target {run.target} times for {says.counted(tried.new, 'token')}. {text.most} "
        f"{'call is' if text.most == 1 else 'calls are'} enough, because "
    )
    if text.misses == 0 or text.misses > tried.k:
        said += f"every round can have {tried.k} accepted {'draft' if tried.k == 1 else 'drafts'} and one more token. "
    elif text.misses == 1:
        said += "every round gives at least one token. "
    else:
        said += f"every round can give {text.misses} tokens, {text.misses - 1} of them accepted drafts. "
    said += _why(tried, output, gives)
    return losing(bench, tried, "too_many_rounds", said, says.at_most(says.counted(text.most, "call")), f"{run.target}",
                 runs.chart(_calls(tried), tried.prompt, output))  # fmt: skip


def _why(tried: Tried, output: Tokens, gives: int) -> str:
    """What the calls show of the reason why there are too many, and what to do."""
    stray = _stray(tried, output)
    if stray:
        return stray.strip()
    found, whole = runs.rounds(_calls(tried), tried.prompt, output), (*tried.prompt, *output)
    for number, one in enumerate(found[:-1], 1):
        if len(one.gave) == one.accepted == len(one.drafts) > 0:
            what = "the draft" if len(one.drafts) == 1 else "all drafts"
            return (
                f"Round {number} had {says.counted(len(one.drafts), 'draft')}, {'which is' if len(one.drafts) == 1 else 'all'} right, and gave no further "
                f"token. If your code accepted {what}, draw one more token from the target's last row, which is already "
                "there. If it refused one although p[x] = q[x] = 1, accept such a draft whatever rng.random() returns, up to "
                "the largest float below 1."
            )
        if not one.gave:
            return (
                f"Calls {number} and {number + 1} of target both came before the next token. One call on the context and all "
                "drafts has every row that the round needs."
            )
        if 0 < len(one.gave) == one.accepted < len(one.drafts):
            place = one.begin + one.accepted
            gave = f"Round {number} gave {says.counted(one.accepted, 'draft')}"
            if whole[place : place + 1] == one.drafts[one.accepted :][:1]:
                return (
                    f"{gave} and ended, although the next draft is right, too. Each of them has p[x] = q[x] = 1. Accept such "
                    "a draft whatever rng.random() returns, up to the largest float below 1, and go on until the first "
                    "refusal."
                )
            return (
                f"{gave} and ended at the next draft, which is wrong, without a token in its place. Draw this token from "
                "norm(max(0, p - q)), also where drafts before it are accepted."
            )
    drafts = max((len(one.drafts) for one in found), default=0)
    if not drafts:
        return f"No call of target had a draft. Make k = {tried.k} in each round."
    if drafts < tried.k and tried.new > drafts + 1:
        return (
            f"No round had more than {says.counted(drafts, 'draft')}, and k is {tried.k}. Make k drafts in each round."
        )
    return "The picture shows what each round gave. Each call of target should follow k drafts."


def _stray(tried: Tried, output: Tokens) -> str:
    """A call of draft whose context is another one than prompt and output so far, in a sentence; "" if there is none."""
    whole = (*tried.prompt, *output)
    decided, asked = len(tried.prompt), 0
    found = runs.rounds(_calls(tried), tried.prompt, output)
    drafted: set[tuple[int, int]] = set()  # places and tokens of drafts that were refused
    first, asking = True, list[Tokens]()  # what draft was called with in this round
    for call in _calls(tried):
        if call.who == "target":
            one = found[asked]
            if lacking := _lacking(whole[: one.begin], one.drafts, asking):
                return f" In round {asked + 1} {lacking}"
            asking = []
            drafted |= {(one.begin + at, token) for at, token in enumerate(one.drafts) if at >= one.accepted}
            decided, asked, first = one.begin + len(one.gave), asked + 1, True
            continue
        asking.append(call.tokens)
        known = whole[:decided]
        at = next((at for at, (a, b) in enumerate(zip(call.tokens, known, strict=False)) if a != b), None)
        if at is None and first and len(call.tokens) < len(known):
            return (
                f" In round {asked + 1} the first call of draft got {says.counted(len(call.tokens), 'token')}, although "
                f"{len(known)} were decided. Begin each round with the prompt and the whole output so far."
            )
        first = False
        if at is None:
            continue
        if at == 0 and call.tokens == known[-len(call.tokens) :]:
            return (
                f" In round {asked + 1} draft got only the last {says.counted(len(call.tokens), 'token')}, although "
                f"{len(known)} were decided. Begin each round with the prompt and the whole output so far."
            )
        there = f"prompt and output have {known[at]}"
        refused = ", a draft that was refused before" if (at, call.tokens[at]) in drafted else ""
        return (
            f" In round {asked + 1} draft got the token {call.tokens[at]} at index {at}{refused}, where {there}. Begin each "
            "round with the prompt and the tokens that were decided."
        )
    return ""


def _lacking(known: Tokens, drafts: Tokens, asking: list[Tokens]) -> str:
    """Which of a round's calls of draft was not given the drafts before it, in a sentence; "" if there is none."""
    if len(asking) != len(drafts):
        return ""
    for at, tokens in enumerate(asking):
        wanted = (*known, *drafts[:at])
        if at and tuple(tokens) != wanted:
            return (
                f"draft was called for draft number {at + 1} with {says.counted(len(tokens), 'token')}, and not with the "
                f"prompt, the output and the drafts before it, {len(wanted)} tokens in all. Append each draft to the "
                "context from which you draw the next."
            )
    return ""


def _repeated(tried: Tried) -> Tokens | None:
    """What draft was given twice, where it was called more often than k times a round; None if there is no such call.

    A round's contexts are those of no earlier round, because it begins behind all tokens that were decided. Where draft
    gets the same tokens again and the calls are too many, it was asked for a row that it had given before."""
    run, seen = tried.runs[0], set[Tokens]()
    if run.draft > tried.k * run.target:
        for call in tried.calls:
            if call.who == "draft" and call.tokens in seen:
                return call.tokens
            if call.who == "draft":
                seen.add(call.tokens)
    return None


def _calls(tried: Tried) -> tuple[Call, ...]:
    """The calls of the models; where draft was asked again for rows that it had given, without these calls."""
    if _repeated(tried) is None:
        return tried.calls
    return tuple(call for at, call in enumerate(tried.calls) if call.who == "target" or call not in tried.calls[:at])


def budget(bench: RankBench) -> Any:
    """At most k calls of the draft for each of the target, 2 k + 1 numbers a round, and no call is too long."""
    for tried in attempts(bench, "agreeing", "wrong", "length", "short", "long"):
        for run in tried.runs:
            _raise_over_budget(bench, tried, run)
    return pictured(bench, "wrong")


def _drawn(run: Run, most: int) -> str:
    """Where more than `most` numbers were drawn between two calls of target, or before the first; "" if nowhere."""
    for call, (before, until) in enumerate(zip((0, *run.drawn), run.drawn, strict=False)):
        if until - before > most:
            where = f"between calls {call} and {call + 1} of target" if call else "before its first call of target"
            return f" It drew {until - before} of them {where}."
    return ""


def _raise_over_budget(bench: RankBench, tried: Tried, run: Run) -> None:
    if run.over:
        raise overrun(bench, tried, run)
    most = tried.k * run.target
    if run.draft > most:
        again, output = _repeated(tried), tried.output(run)
        found = runs.rounds(_calls(tried), tried.prompt, output) if tried.calls and output is not None else []
        number, longer = next(((n, one) for n, one in enumerate(found, 1) if len(one.drafts) > tried.k), (0, None))
        text = (
            f"your function called draft {says.counted(run.draft, 'time')} and target "
            f"{says.counted(run.target, 'time')}. A round has at most k = {tried.k} drafts, so {most} calls of draft are "
            "allowed. "
        )
        text += (
            f"R{_over_k(tried, number, longer)[1:]}"
            if again is None and longer is not None
            else "Call draft once for each draft, and keep the row that you draw from as q. Do not call draft for the token "
            "that the target decides."
            if again is None
            else f"It was called twice with the same context of {says.counted(len(again), 'token')}. draft keeps no state. "
            "Keep its row, also as q, in place of a second call."
        )
        raise losing(bench, tried, "too_many_rounds", text, f"at most {most} calls of draft", f"{run.draft}",
                    rounds_of(tried, run))  # fmt: skip
    numbers = (2 * tried.k + 1) * run.target
    if len(run.digits) > numbers:
        text = (
            f"your function drew {says.counted(len(run.digits), 'random number')} in {says.counted(run.target, 'round')}. "
            f"A round draws at most 2 k + 1 = {2 * tried.k + 1}: one for each draft, one to accept or refuse each draft, "
            f"and one for the last token.{_drawn(run, 2 * tried.k + 1)}"
        )
        raise losing(bench, tried, "too_many_rounds", text, f"at most {numbers} numbers", f"{len(run.digits)}",
                    rounds_of(tried, run))  # fmt: skip
    longest = len(tried.prompt) + tried.new + tried.k
    if run.longest > longest:
        text = (
            f"a call had {run.longest} tokens. The prompt has {says.counted(len(tried.prompt), 'token')}, "
            f"{tried.new} are new and k is {tried.k}, so no call needs more than {longest}."
        )
        raise losing(bench, tried, "too_many_rounds", text, f"at most {longest} tokens", f"{run.longest}",
                    rounds_of(tried, run))  # fmt: skip
