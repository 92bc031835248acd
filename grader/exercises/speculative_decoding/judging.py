"""Judges what a submission returned and called, and says in words what is wrong with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from grader import says, tally
from grader.exercises.speculative_decoding import runs as runs
from grader.exercises.speculative_decoding.cases import Text
from grader.exercises.speculative_decoding.runs import Call, Run
from grader.exercises.speculative_decoding.tables import MISTAKES, SAME, Spread, Table, Tokens
from grader.lost import Lost
from grader.trace.gantt import Chart
from grader.verdict import Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench


@dataclass(frozen=True)
class Tried:
    """Every way of one call on a grid, or, of models with one-hot rows, the one with its calls."""

    case: Case
    runs: tuple[Run, ...]
    calls: tuple[Call, ...] = ()
    steady: bool = True
    others: tuple[str, ...] = ()

    @property
    def table(self) -> Table:
        table: Table = self.case.expected
        return table

    @property
    def text(self) -> Text:
        text: Text = self.case.expected
        return text

    @property
    def prompt(self) -> Tokens:
        prompt: Tokens = self.case.expected.prompt
        return prompt

    def output(self, run: Run) -> Tokens | None:
        """The new tokens of a run; None where it returned too few."""
        return run.output(self.prompt, self.new, self.repeats)

    @cached_property
    def repeats(self) -> bool:
        """Whether each run returned the prompt before the new tokens."""
        return all(run.repeats(self.prompt, self.new) for run in self.runs)

    @property
    def new(self) -> int:
        return int(self.case.expected.new)

    @property
    def k(self) -> int:
        return int(self.case.expected.k)


def _tried(bench: RankBench, *groups: str) -> Iterator[Tried]:
    """The finished calls of these groups. Raises Lost at the first that did not finish."""
    for group in groups:
        for case, result in bench.calls(group):
            told = result.returned[0]
            if "run" in told:
                calls = tuple(map(Call.of, told["calls"]))
                yield Tried(case, (Run.of(told["run"]),), calls)
            else:
                yield Tried(case, tuple(map(Run.of, told["runs"])), (), told["steady"], tuple(told["others"]))


def _lost(
    bench: RankBench, tried: Tried, kind: Kind, text: str, expected: str = "", got: str = "", picture: Chart | None = None
) -> Lost:  # fmt: skip
    loss = bench.lost(tried.case, kind, f"With {tried.case.label}: {text}", None, expected, got)
    return Lost(loss.diagnosis, picture or loss.picture)


# ---- the list that is returned


def lengths(bench: RankBench) -> Any:
    """Each run returns exactly so many Python ints in a list, without the prompt, which stays as it is."""
    for tried in _tried(bench, "length", "agreeing", "wrong", "short", "long"):
        for run in tried.runs:
            if not run.over:
                _raise_malformed(bench, tried, run)
    return _picture(bench, "length")


def _raise_malformed(bench: RankBench, tried: Tried, run: Run) -> None:
    wanted, tokens = f"a list of {says.counted(tried.new, 'int')}", run.tokens
    if run.kind:
        advice = "Is a `return` missing?" if run.kind == "None" else "Use list(...) and int(token)."
        text = f"generate returned {run.kind} instead of a list of Python ints. {advice}"
        raise _lost(bench, tried, "wrong_result", text, wanted, run.kind)
    assert tokens is not None
    if len(tokens) != tried.new:
        text = f"generate returned {says.counted(len(tokens), 'token')} instead of {tried.new}."
        if tried.repeats:
            text += " The list begins with the prompt. Return the new tokens alone."
        elif len(tokens) > tried.new:
            text += " A round can give more tokens than are still missing. Cut the list at max_new_tokens."
        else:
            text += " There is no end token: go on until there are max_new_tokens."
        raise _lost(bench, tried, "wrong_result", text, f"{tried.new} tokens", f"{len(tokens)}", _chart(tried, run))
    if not run.kept:
        text = "generate changed the list `prompt` of its caller. Work on a copy: list(prompt)."
        raise _lost(bench, tried, "wrong_result", text, "the same prompt", "another one")


def _whole(bench: RankBench, tried: Tried) -> None:
    """Raises Lost where the outputs of these runs cannot be judged."""
    for run in tried.runs:
        if run.over:
            raise _overrun(bench, tried, run)
        if tried.output(run) is None:
            got = run.kind or says.counted(len(run.tokens or ()), "token")
            text = f"Not judged, because generate returned {got} instead of a list of {says.counted(tried.new, 'int')}."
            raise _lost(bench, tried, "wrong_result", text, f"a list of {says.counted(tried.new, 'int')}", got)


def _overrun(bench: RankBench, tried: Tried, run: Run) -> Lost:
    if run.over == "numbers":
        most = (2 * tried.k + 1) * tried.new
        text = (
            f"generate was stopped after {says.counted(len(run.digits), 'random number')}. It needs at most "
            f"{says.counted(tried.new, 'round')}, and a round draws at most 2 k + 1 = {2 * tried.k + 1} numbers: one for each "
            "draft, one to accept or refuse each draft, and one for the last token. Does your code draw again until a token "
            "fits? Draw once, from norm(max(0, p - q))."
        )
        return _lost(bench, tried, "too_many_rounds", text, f"at most {most}", "more", _chart(tried, run))
    text = (
        f"generate was stopped after {run.target} calls of target and {run.draft} calls of draft. Each round makes one call "
        f"of target and gives at least one token, so {tried.new} rounds are enough. Does your loop end?"
    )
    return _lost(bench, tried, "too_many_rounds", text, f"at most {tried.new} calls of target", f"{run.target}")


# ---- distributions


def distribution(group: str) -> Callable[[RankBench], Any]:
    """The outputs have exactly the target's distribution, and no more drafts are refused than must be."""

    def judge(bench: RankBench) -> Any:
        every = list(_tried(bench, group))
        whole = [tried for tried in every if not any(run.over for run in tried.runs)]
        for tried in whole:
            _whole(bench, tried)
            _raise_unsteady(bench, tried)
        for tried in whole:
            if _got(tried) != tried.table.right():
                raise _wrong_distribution(bench, tried, whole)
        for tried in every:
            _whole(bench, tried)
        _raise_refusing(bench, every)
        return _picture(bench, group)

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
    raise _lost(bench, tried, "nondeterministic", text)


def _wrong_distribution(bench: RankBench, tried: Tried, every: Sequence[Tried]) -> Lost:
    table, got, right = tried.table, _got(tried), tried.table.right()
    before, token = _differs(got, right, tried.new)
    given = sum(mass for tokens, mass in right.items() if tokens[: len(before)] == before)
    shares = [sum(mass for tokens, mass in spread.items() if tokens[: len(before) + 1] == (*before, token)) / given
              for spread in (got, right)]  # fmt: skip
    mine, wanted = (str(Fraction(share).limit_denominator(2**40)) for share in shares)
    text = f"output[{len(before)}] does not have the target's distribution. "
    text += (
        f"After {_tokens(table.prompt)}{f' and the output {_tokens(before)}' if before else ''} the target's row is "
    )
    text += f"p = {_row(table.target[before], table.levels)} and the draft's q = {_row(table.draft[before], table.levels)}. "
    text += (
        f"Over all random numbers, your function returns token {token} there with probability {mine}, not {wanted}. "
    )
    loss = _lost(bench, tried, "wrong_result", text, f"token {token} with probability {wanted}", mine)
    calls = _replayed(bench, tried, (*before, token) if shares[0] > shares[1] else before)
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


def _tokens(tokens: Tokens) -> str:
    return f"[{', '.join(map(str, tokens))}]"


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
            f"Your function called {lost.who}({_tokens(lost.tokens)}), which does not begin with the prompt "
            f"{_tokens(tried.prompt)}. The rows depend on the whole context, so give it with every call."
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
        others += [each for each in _tried(bench, "short", "long") if all(each.output(run) for run in each.runs)]
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
    return f"The distributions of all {len(tables)} pairs of models are exactly as if {what}. {advice}"


def _known_tokens(tried: Tried) -> bool:
    return all(0 <= token < tried.table.vocabulary for run in tried.runs for token in tried.output(run) or ())


def _replayed(bench: RankBench, tried: Tried, beginning: Tokens) -> tuple[tuple[Call, ...], Tokens, Tokens] | None:
    """The calls, prompt and output of a run whose output begins so, made once more to be shown."""
    suited = [run for run in tried.runs if (tried.output(run) or ())[: len(beginning)] == beginning]
    if not suited:
        return None
    run = max(suited, key=lambda run: (len(run.digits), run.digits))
    arguments = (*tried.case.arguments[0][:-1], list(run.digits))
    again = bench.again(tried.case, [(arguments,)])
    if not again:
        return None
    told = again[0].returned[0]
    output = tried.output(Run.of(told["runs"][0]))
    return None if output is None else (tuple(map(Call.of, told["calls"])), tried.prompt, output)


# ---- counts


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
            raise _lost(bench, tried, "wrong_result", text, f"{_number(most)} calls", _number(mine))
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
        raise _lost(bench, tried, "too_many_rounds", text, f"{_number(most)} calls", _number(mine))


def _mean(tried: Tried) -> float:
    return sum(run.target * float(tried.table.levels) ** -len(run.digits) for run in tried.runs)


def _number(value: float) -> str:
    fraction = Fraction(value).limit_denominator(2**40)
    return str(fraction) if fraction.denominator > 1 else f"{value:g}"


def calls(group: str) -> Callable[[RankBench], Any]:
    """With one-hot rows, the target is called at most as often as the rule needs."""

    def judge(bench: RankBench) -> Any:
        right: list[tuple[Tried, Tokens]] = []
        for tried in _tried(bench, group):
            run, text = tried.runs[0], tried.text
            _whole(bench, tried)
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
        return _picture(bench, group)

    return judge


def _raise_unasked(bench: RankBench, tried: Tried, output: Tokens) -> None:
    """Raise Lost where a draft is none of draft's, or a token of the output comes from no call of the target: there are few
    calls then because the models were looked into in another way."""
    whole, decided = (*tried.prompt, *output), len(tried.prompt)
    for number, one in enumerate(runs.rounds(tried.calls, tried.prompt, output), 1):
        for at, token in enumerate(one.drafts):
            wanted = tried.text.draft((*whole[: one.begin], *one.drafts[:at]))
            if wanted not in (None, token):
                text = (
                    f"call {number} of target has the token {token} at index {one.begin + at}, where draft gives {wanted} "
                    f"with probability 1. Draw each draft from the last row of draft.{_stray(tried, output)}"
                )
                raise _lost(bench, tried, "wrong_result", text, f"the draft {wanted}", f"{token}")
        if one.begin > decided or len(one.drafts) > tried.k:
            break
        decided = max(decided, one.begin + one.accepted + 1)
    if decided < len(whole):
        text = (
            f"output[{decided - len(tried.prompt)}] is right, but no call of target gave its row. Each round gives the "
            "accepted drafts, at most k, and one more token, all from the rows of one call of target."
        )
        raise _lost(bench, tried, "sandbox_violation", text)


def _other_text(bench: RankBench, tried: Tried, output: Tokens) -> Lost:
    at = next(at for at, token in enumerate(output) if token != tried.text.output[at])
    text = (
        "Not judged, because the output is not the target's text. Each row of the target gives one token probability 1 here: "
        f"output[{at}] must be {tried.text.output[at]}, but is {output[at]}."
    )
    stray = _stray(tried, output)
    if at < len(output) and _refused(tried, output, at):
        text += " The draft had proposed that token, which has probability 0 in the target's row. Refuse it."
    return _lost(bench, tried, "wrong_result", f"{text}{stray}", f"{tried.text.output[at]}", f"{output[at]}",
                 runs.chart(tried.calls, tried.prompt, output))  # fmt: skip


def _refused(tried: Tried, output: Tokens, at: int) -> bool:
    """Whether the token at that place of the output was a draft."""
    place = len(tried.prompt) + at
    return any(
        one.begin <= place < one.begin + len(one.drafts) and one.drafts[place - one.begin] == output[at]
        for one in runs.rounds(tried.calls, tried.prompt, output)
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
    return _lost(bench, tried, "too_many_rounds", said, says.at_most(says.counted(text.most, "call")), f"{run.target}",
                 runs.chart(tried.calls, tried.prompt, output))  # fmt: skip


def _why(tried: Tried, output: Tokens, gives: int) -> str:
    """What the calls show of the reason why there are too many, and what to do."""
    stray = _stray(tried, output)
    if stray:
        return stray.strip()
    found = runs.rounds(tried.calls, tried.prompt, output)
    for number, one in enumerate(found[:-1], 1):
        if len(one.gave) == one.accepted == len(one.drafts) > 0:
            return (
                f"Round {number} had {says.counted(len(one.drafts), 'draft')}, accepted {'it' if one.accepted == 1 else 'all'}, "
                "and gave no further token. The target's last row is already there: draw one more token from it."
            )
        if not one.gave:
            return (
                f"Calls {number} and {number + 1} of target both came before the next token. One call on the context and all "
                "drafts has every row that the round needs."
            )
        if len(one.gave) == 1 and one.drafts and one.accepted == 1 < len(one.drafts):
            return f"Round {number} gave one token although more drafts are right. Go on until the first refusal."
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
    found = runs.rounds(tried.calls, tried.prompt, output)
    drafted: set[tuple[int, int]] = set()  # places and tokens of drafts that were refused
    first = True
    for call in tried.calls:
        if call.who == "target":
            one = found[asked]
            drafted |= {(one.begin + at, token) for at, token in enumerate(one.drafts) if at >= one.accepted}
            decided, asked, first = one.begin + len(one.gave), asked + 1, True
            continue
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
        there = f"prompt and output have {known[at]}"
        refused = ", a draft that was refused before" if (at, call.tokens[at]) in drafted else ""
        return (
            f" In round {asked + 1} draft got the token {call.tokens[at]} at index {at}{refused}, where {there}. Begin each "
            "round with the prompt and the tokens that were decided."
        )
    return ""


def budget(bench: RankBench) -> Any:
    """At most k calls of the draft for each of the target, 2 k + 1 numbers a round, and no call is too long."""
    for tried in _tried(bench, "agreeing", "wrong", "length", "short", "long"):
        for run in tried.runs:
            _raise_over_budget(bench, tried, run)
    return _picture(bench, "wrong")


def _raise_over_budget(bench: RankBench, tried: Tried, run: Run) -> None:
    if run.over:
        raise _overrun(bench, tried, run)
    most = tried.k * run.target
    if run.draft > most:
        text = (
            f"your function called draft {says.counted(run.draft, 'time')} and target "
            f"{says.counted(run.target, 'time')}. A round has at most k = {tried.k} drafts, so {most} calls of draft are "
            "allowed. Do not call draft for the token that the target decides."
        )
        raise _lost(bench, tried, "too_many_rounds", text, f"at most {most} calls of draft", f"{run.draft}",
                    _chart(tried, run))  # fmt: skip
    numbers = (2 * tried.k + 1) * run.target
    if len(run.digits) > numbers:
        text = (
            f"your function drew {says.counted(len(run.digits), 'random number')} in {says.counted(run.target, 'round')}. "
            f"A round draws at most 2 k + 1 = {2 * tried.k + 1}: one for each draft, one to accept or refuse each draft, "
            "and one for the last token."
        )
        raise _lost(bench, tried, "too_many_rounds", text, f"at most {numbers} numbers", f"{len(run.digits)}",
                    _chart(tried, run))  # fmt: skip
    longest = len(tried.prompt) + tried.new + tried.k
    if run.longest > longest:
        text = (
            f"a call had {run.longest} tokens. The prompt has {says.counted(len(tried.prompt), 'token')}, "
            f"{tried.new} are new and k is {tried.k}, so no call needs more than {longest}."
        )
        raise _lost(bench, tried, "too_many_rounds", text, f"at most {longest} tokens", f"{run.longest}",
                    _chart(tried, run))  # fmt: skip


# ---- pictures


def _chart(tried: Tried, run: Run) -> Chart | None:
    """The rounds of a run whose calls are known."""
    output = tried.output(run)
    return runs.chart(tried.calls, tried.prompt, output) if tried.calls and output is not None else None


def _picture(bench: RankBench, group: str) -> Any:
    """What is drawn of a check that went well: the run with the most rounds."""
    every = list(_tried(bench, group))
    shown = [tried for tried in every if tried.calls and _chart(tried, tried.runs[0])]
    if shown:
        best = max(shown, key=lambda tried: min(tried.new, 12))
        return _chart(best, best.runs[0])
    longest = every[-1]
    calls = _replayed(bench, longest, ())
    return runs.chart(*calls) if calls else bench.picture(group)
