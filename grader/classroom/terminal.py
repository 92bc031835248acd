"""A verdict in the terminal: each check as it is decided, each mistake told once, and what there is to fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.markup import escape as plain
from rich.status import Status
from rich.table import Table
from rich.text import Text

from grader import says
from grader.classroom import numbers
from grader.classroom.pages import kinds, values
from grader.classroom.pages.findings import Finding, about, case, findings, not_judged, to_fix
from grader.classroom.pages.reading import reading
from grader.classroom.pages.words import number
from grader.classroom.report import MARK, indented, printable, shown
from grader.exercise import Check
from grader.verdict import CheckResult, Diagnosis, Verdict

HTML = "Add `--html page.html` to see the runs drawn and the lines of your code marked."
_INDENT = 9
_MOST_ELEMENTS = 4
_MOST_CHECKS = 8


class TerminalReport:
    """Prints checks as they are decided, and then what it comes to. `hint` is said where something is to be fixed.
    On a terminal it says below them, while it takes, which check is being graded."""

    def __init__(self, hint: str = "", checks: Sequence[Check] = (), part: bool = False) -> None:
        self.console = Console(highlight=False)
        self.hint = hint
        self.part = part
        self.told: set[tuple[str, object]] = set()
        self._next = [check.title for check in checks]
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal and self._next:
            self._status = self.console.status(plain(self._next[0]))
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def check(self, result: CheckResult) -> None:
        self._next = self._next[1:]
        if self._status is not None and self._next:
            self._status.update(plain(self._next[0]))
        mark, colour = MARK[result.status]
        points = f"{result.points:g}/{result.max_points:g}"
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_row(f"[{colour}]{mark}[/] {points:>5}", plain(result.title))
        indented(self.console, row, 0)
        found = result.diagnosis
        if found is None:
            return
        again = result.status == "fail" and about(found) in self.told
        message = _as_above(found) if again else printable(found.message)
        self._indented(f"[{colour}]{found.kind}[/]: {plain(message)}")
        if not again:
            self._values(found)
        self.told.add(about(found))

    def _values(self, found: Diagnosis) -> None:
        """The first elements that are wrong, where it is known what they are instead."""
        wrong = [each for each in values.elements(found) if each["differs"]]
        if not any(each["note"] for each in wrong):
            return
        table = Table(box=None, padding=(0, 2, 0, 0))
        for head, justify in (("element", "left"), ("expected", "right"), ("got", "right"), ("that is", "left")):
            table.add_column(head, justify=justify)  # type: ignore[arg-type]
        for each in wrong[:_MOST_ELEMENTS]:
            row = (each["place"], each["expected"], each["got"], each["said"])
            table.add_row(*(plain(printable(word)) for word in row))
        self._indented(table)
        if len(wrong) > _MOST_ELEMENTS:
            self._indented(f"... and {says.counted(len(wrong) - _MOST_ELEMENTS, 'more element')}")

    def _numbers(self, verdict: Verdict) -> None:
        """What was measured, where there is nothing to fix."""
        rows = list(numbers.rows(verdict.checks)) if verdict.passed else []
        if not rows:
            return
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        for row in rows:
            left = Text(row.what).append(f"\n{row.where}" if row.where else "", "dim")
            right = Text(row.yours, "bold").append(f"  {row.allowed}", "not bold")
            table.add_row(left, right.append(f"\n{row.remark}" if row.remark else "", "not bold cyan"))
        self.console.print("\n[bold]Your numbers[/]")
        indented(self.console, table, 2)

    def _indented(self, what: str | Table) -> None:
        indented(self.console, what, _INDENT)

    def printed(self, verdict: Verdict, lines: int | None = None) -> None:
        """What the learner's code printed in the run that failed first; with `lines`, only its own prints, and the
        first lines of them."""
        failed = verdict.first_failure
        if not failed or not failed.output or (lines and " printed:\n" not in failed.output):
            return
        self.console.print("\n[bold]What your code printed[/]")
        text = shown(failed.output)
        kept = text.split("\n")[:lines]
        self.console.print(Text("\n".join(kept)))
        if left := text.count("\n") + 1 - len(kept):
            self.console.print(f"[dim]... and {says.counted(left, 'more line')}[/]")

    def summary(self, verdict: Verdict) -> None:
        self.printed(verdict)
        colour = "green" if verdict.passed else "yellow" if verdict.points else "red"
        facts = (verdict.exercise, f"seed {verdict.seed}", "+".join(verdict.engines), f"{verdict.seconds:.1f} s")
        self.console.print(
            f"\n[bold {colour}]{verdict.points:g} of {verdict.max_points:g} points[/]  {', '.join(filter(None, facts))}"
        )
        found = [each for each in findings(verdict.checks) if each.first.status == "fail"]
        if found:
            lost = number(sum(each.lost for each in found))
            things = to_fix(found)
            self.console.print(f"[bold]{says.counted(len(things), 'thing')} to fix: -{lost} points[/]")
            for place, each in enumerate(things, 1):
                indented(self.console, f"{place}. {plain(_line(each))}", 2)
                told = reading(verdict.exercise, each.first.name, each.diagnosis.kind)
                if told is not None:
                    section = f", {told.section}" if told.section else f", {told.title}"
                    indented(self.console, f"[dim]read chapter {told.chapter}{plain(section)}[/]", 5)
            if left := [check for each in found if each not in things for check in each.checks]:
                indented(self.console, f"Not judged yet: {_cost(left)}", 2)
        self._numbers(verdict)
        if self.part:
            names = says.some([check.name for check in verdict.checks], _MOST_CHECKS)
            self.console.print(f"\nGraded: {names}. Grade all checks for your points.")
        if found and self.hint:
            self.console.print(f"\n{plain(self.hint)}")


def _as_above(found: Diagnosis) -> str:
    """What is said of a mistake that was told already."""
    above = "as above" if found.line is None else f"as above, at line {found.line}"
    where = case(found.message) if found.kind == "wrong_result" else ""
    above = f"{above}, with {where}" if where else above
    unjudged = not_judged(found.message)
    return printable(f"{unjudged}: {above}" if unjudged else above)


def _line(each: Finding) -> str:
    """One thing to fix: "Wrong result: -16 points in sum, bytes"."""
    at = "" if each.diagnosis.line is None else f", line {each.diagnosis.line}"
    return f"{kinds.title(each.diagnosis.kind)}{at}: {_cost(each.checks)}"


def _cost(checks: Sequence[CheckResult]) -> str:
    lost = sum(check.max_points - check.points for check in checks)
    names = says.some([check.name for check in checks], _MOST_CHECKS)
    return f"-{number(lost)} point{'s' * (lost != 1)} in {names}"
