"""What a submission returned and called on one pair of models, and whether it returned a list of tokens at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grader import says
from grader.exercises.speculative_decoding import runs as runs
from grader.exercises.speculative_decoding.cases import Text
from grader.exercises.speculative_decoding.runs import Call, Run
from grader.exercises.speculative_decoding.tables import Table, Tokens
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


def attempts(bench: RankBench, *groups: str) -> Iterator[Tried]:
    """The finished calls of these groups. Raises Lost at the first that did not finish."""
    for group in groups:
        for case, result in bench.calls(group):
            told = result.returned[0]
            if "run" in told:
                calls = tuple(map(Call.of, told["calls"]))
                yield Tried(case, (Run.of(told["run"]),), calls)
            else:
                yield Tried(case, tuple(map(Run.of, told["runs"])), (), told["steady"], tuple(told["others"]))


def losing(
    bench: RankBench, tried: Tried, kind: Kind, text: str, expected: str = "", got: str = "", picture: Chart | None = None
) -> Lost:  # fmt: skip
    loss = bench.lost(tried.case, kind, f"With {tried.case.label}: {text}", None, expected, got)
    return Lost(loss.diagnosis, picture or loss.picture)


def must_be_whole(bench: RankBench, tried: Tried) -> None:
    """Raises Lost where the outputs of these runs cannot be judged."""
    for run in tried.runs:
        if run.over:
            raise overrun(bench, tried, run)
        if tried.output(run) is None:
            got = run.kind or says.counted(len(run.tokens or ()), "token")
            text = f"Not judged, because generate returned {got} instead of a list of {says.counted(tried.new, 'int')}."
            raise losing(bench, tried, "wrong_result", text, f"a list of {says.counted(tried.new, 'int')}", got)


def overrun(bench: RankBench, tried: Tried, run: Run) -> Lost:
    if run.over == "numbers":
        most = (2 * tried.k + 1) * tried.new
        text = (
            f"generate was stopped after {says.counted(len(run.digits), 'random number')}. It needs at most "
            f"{says.counted(tried.new, 'round')}, and a round draws at most 2 k + 1 = {2 * tried.k + 1} numbers: one for each "
            f"draft, one to accept or refuse each draft, and one for the last token. {_too_many_numbers(tried, run)}"
        )
        return losing(bench, tried, "too_many_rounds", text, f"at most {most}", "more", rounds_of(tried, run))
    text = (
        f"generate was stopped after {run.target} calls of target and {run.draft} calls of draft. Each round makes one call "
        f"of target and gives at least one token, so {tried.new} rounds are enough. Does your loop end?"
    )
    return losing(bench, tried, "too_many_rounds", text, f"at most {tried.new} calls of target", f"{run.target}")


def _too_many_numbers(tried: Tried, run: Run) -> str:
    """What the calls of a run that was stopped say about its numbers, and what to do."""
    called = f"called draft {says.counted(run.draft, 'time')} and target {says.counted(run.target, 'time')}"
    if run.target > tried.new:
        return f"It had {called}. Call target once a round, on the context and all drafts. Each round gives at least one token."
    if run.draft > tried.k * tried.new:
        return (
            f"It had {called}, and k is {tried.k}. Draw at most k drafts before each call of target, and stop when there "
            f"{'is' if tried.new == 1 else 'are'} {says.counted(tried.new, 'new token')}."
        )
    return (
        f"It had {called}, which need at most {2 * run.draft + run.target} numbers. Draw the token after a refusal once, from "
        "norm(max(0, p - q)). Never draw again until a token fits."
    )


def replayed(bench: RankBench, tried: Tried, beginning: Tokens) -> tuple[tuple[Call, ...], Tokens, Tokens] | None:
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


def as_list(tokens: Tokens) -> str:
    return f"[{', '.join(map(str, tokens))}]"


def rounds_of(tried: Tried, run: Run) -> Chart | None:
    """The rounds of a run whose calls are known."""
    output = tried.output(run)
    return runs.chart(tried.calls, tried.prompt, output) if tried.calls and output is not None else None


def pictured(bench: RankBench, group: str) -> Any:
    """What is drawn of a check that went well: the run with the most rounds."""
    every = list(attempts(bench, group))
    shown = [tried for tried in every if tried.calls and rounds_of(tried, tried.runs[0])]
    if shown:
        best = max(shown, key=lambda tried: min(tried.new, 12))
        return rounds_of(best, best.runs[0])
    longest = every[-1]
    calls = replayed(bench, longest, ())
    return runs.chart(*calls) if calls else bench.picture(group)


def lengths(bench: RankBench) -> Any:
    """Each run returns exactly so many Python ints in a list, without the prompt, which stays as it is."""
    for tried in attempts(bench, "length", "agreeing", "wrong", "short", "long"):
        for run in tried.runs:
            if not run.over:
                _raise_malformed(bench, tried, run)
    return pictured(bench, "length")


def _raise_malformed(bench: RankBench, tried: Tried, run: Run) -> None:
    wanted, tokens = f"a list of {says.counted(tried.new, 'int')}", run.tokens
    if run.kind:
        advice = "Is a `return` missing?" if run.kind == "None" else "Use list(...) and int(token)."
        text = f"generate returned {run.kind} instead of a list of Python ints. {advice}"
        raise losing(bench, tried, "wrong_result", text, wanted, run.kind)
    assert tokens is not None
    if len(tokens) != tried.new:
        text = f"generate returned {says.counted(len(tokens), 'token')} instead of {tried.new}."
        if tried.repeats:
            text += " The list begins with the prompt. Return the new tokens alone."
        elif len(tokens) > tried.new:
            text += " A round can give more tokens than are still missing. Cut the list at max_new_tokens."
        else:
            text += " There is no end token: go on until there are max_new_tokens."
        raise losing(bench, tried, "wrong_result", text, f"{tried.new} tokens", f"{len(tokens)}", rounds_of(tried, run))
    if not run.kept:
        text = "generate changed the list `prompt` of its caller. Work on a copy: list(prompt)."
        raise losing(bench, tried, "wrong_result", text, "the same prompt", "another one")
