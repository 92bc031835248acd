"""A class in the terminal: a bar while it is graded, a line for every submission, and what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from grader.classroom.batch.publish import printable
from grader.classroom.pages.overview import ClassResult, Row

WRITTEN_NOT = "graded, but not written"
_MOST_NAME = 32
_MOST_MESSAGE = 400


@dataclass(frozen=True)
class Remark:
    """Something about one submission that a person should know; `bad` where it could not be graded."""

    student: str
    sentence: str
    bad: bool = False


class Progressing:
    """Shows submissions as they are done: with a bar in a terminal, else as plain lines. Use as a context."""

    def __init__(self, console: Console, total: int) -> None:
        self.console, self.total, self.count = console, total, 0
        self._progress = Progress(
            TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"),
            TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=total)

    def __enter__(self) -> Progressing:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def done(self, row: Row, notebook: str = "") -> None:
        """One more is done. `notebook` says which, where the assignment has several."""
        self.count += 1
        line = Text(f"{self.count:>{len(str(self.total))}} of {self.total}  ")
        line.append(f"{_name(row.student):<12}")
        line.append(f"  {printable(notebook)}" if notebook else "")
        kind = row.kinds[0][1] if row.kinds else ""
        if row.problem:
            line.append("     -  ")
            line.append(_message(told(row.problem)), style="red")
        else:
            share = f"{row.points:g}/{row.max_points:g}"
            line.append(f"{share:>8}  ", style="green" if row.points >= row.max_points else "yellow")
            line.append(f"{kind:<20} {row.seconds:5.1f} s" + ("  late" if row.late else ""))
        self.console.print(line, soft_wrap=True)
        self._progress.update(self._task, completed=self.count)


def told(problem: str) -> str:
    """Why somebody has no points, as a sentence of its own."""
    return problem if problem.startswith(WRITTEN_NOT) else f"not graded: {problem}"


def _name(student: str) -> str:
    shown = printable(student)
    return shown if len(shown) <= _MOST_NAME else shown[: _MOST_NAME - 1] + "…"


def _message(text: str) -> str:
    shown = printable(text.replace("\n", " "))
    return shown if len(shown) <= _MOST_MESSAGE else shown[: _MOST_MESSAGE - 1] + "…"


def show(console: Console, result: ClassResult, checks: Sequence[str]) -> None:
    """Everybody's points, and what the class gets wrong in which of the `checks`."""
    console.print(Text(f"\n{printable(result.exercise)}", style="bold"))
    rows = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    rows.add_column("student", no_wrap=True)
    rows.add_column("points", justify="right", no_wrap=True)
    rows.add_column("points lost to")
    for row in result.rows:
        kinds = Counter(kind for _, kind, _ in row.kinds)
        lost = ", ".join(f"{kind} ({count})" if count > 1 else kind for kind, count in kinds.items())
        share = "-" if row.problem else f"{row.points:g}/{row.max_points:g}"
        late = " (late)" if row.late else ""
        rows.add_row(Text(_name(row.student)), share, Text("not graded" if row.problem else lost + late))
    console.print(rows)
    graded = [row for row in result.rows if not row.problem]
    if not graded:
        return
    points = [row.points for row in graded]
    full = sum(row.points >= row.max_points for row in graded)
    most = max(row.max_points for row in graded)
    console.print(
        f"{len(graded)} of {len(result.rows)} graded: mean {fmean(points):.3g} of {most:g}, median {median(points):g}, "
        f"{full} with all points"
    )
    _mistakes(console, graded, checks)


def _mistakes(console: Console, graded: Sequence[Row], checks: Sequence[str]) -> None:
    lost: dict[str, Counter[str]] = {name: Counter() for name in checks}
    for row in graded:
        for check, kind, _ in row.kinds:
            lost.setdefault(check, Counter())[kind] += 1
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("check", no_wrap=True)
    table.add_column("lost by", justify="right", no_wrap=True)
    table.add_column("mistakes")
    for check, kinds in lost.items():
        if kinds:
            told = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
            table.add_row(Text(printable(check)), f"{kinds.total()}/{len(graded)}", Text(told))
    if table.row_count:
        console.print(Text("\nWhat the class gets wrong", style="bold"))
        console.print(table)


def remarks(console: Console, said: Sequence[Remark]) -> None:
    """What a person should look at."""
    if said:
        console.print(Text("\nPlease check", style="bold"))
    for remark in said:
        line = Text(f"{_name(remark.student)}: {_message(remark.sentence)}", style="red" if remark.bad else "")
        console.print(line, soft_wrap=True)


def places(console: Console, pages: Sequence[Path], feedback: Path, gradebook: str) -> None:
    """Where everything is."""
    console.print()
    for page in pages:
        console.print(Text(f"Overview: {page}"), soft_wrap=True)
    console.print(Text(f"Feedback: {feedback}"), soft_wrap=True)
    console.print(Text(f"Gradebook: {gradebook}"), soft_wrap=True)
