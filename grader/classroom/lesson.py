"""What an exercise gives with the task: hints one by one, the solution next to yours, the interviewer's questions."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from grader import catalog, progress, registry, says, submission
from grader.classroom import own, report
from grader.submission import BadRequest

_HINT = re.compile(r"<details><summary>(?:Hint \d+: )?(.*?)</summary>\s*(.*?)\s*</details>", re.DOTALL)
_BESIDE = 150  # columns: two programs fit next to each other
TRIES = 3  # with the same thing wrong: then a hint is offered


@dataclass(frozen=True)
class Hint:
    """One hint of an exercise: what it is about, and its text in Markdown."""

    title: str
    text: str


def hints(exercise: str) -> list[Hint]:
    """The hints in an exercise's notebook, from the least to the most that is given away."""
    return [Hint(*found) for found in _HINT.findall(_cell(exercise, "hints"))]


def follow_ups(exercise: str) -> str:
    """What the interviewer asks next, in Markdown without its heading."""
    return _cell(exercise, "follow-ups").partition("\n")[2].strip()


def _cell(exercise: str, name: str) -> str:
    cells, _ = submission.parse(catalog.exercise_notebook(exercise).read_bytes())
    return next((cell.source for cell in cells if cell.grade_id == name), "")


def print_hint(exercise: str, again: bool = False) -> None:
    """Print the next hint, and remember that it was given; with `again` all that were. Raises BadRequest where there
    is none."""
    name = registry.find(exercise).name
    listed, given = hints(name), progress.hints_given(name)
    if again and not given:
        raise BadRequest(f"you have had no hint for {name} yet; leave --again out")
    if not again and given >= len(listed):
        seen = f"you have had {'its only hint' if len(listed) == 1 else f'all {len(listed)} hints'} for {name}"
        end = f"{seen}. --again shows them" if listed else f"{name} has no hints"
        raise BadRequest(f"{end}; `rankup solution {name} --give-up` shows the solution")
    from rich.markdown import Markdown

    console = Console(highlight=False)
    for number, hint in list(enumerate(listed, 1))[slice(0, given) if again else slice(given, given + 1)]:
        console.print(f"[bold]Hint {number} of {len(listed)}: {escape(hint.title)}[/]")
        console.print(Padding(Markdown(hint.text), (0, 0, 1, 2)))
    if not again:
        progress.record_hint(name, given + 1)


def print_solution(exercise: str, give_up: bool = False) -> None:
    """Print the solution next to your own copy. Raises BadRequest before you have full marks, unless you give up."""
    from rich.table import Table

    found = registry.find(exercise)
    best = progress.best().get(found.name)
    if not give_up and (best is None or best.points < best.max_points):
        so_far = f"you have {best.points:g} of {best.max_points:g} points" if best else "you have not graded it yet"
        raise BadRequest(f"the solution of {found.name} is for after full marks, and {so_far}. --give-up shows it now")
    reference = submission.read(catalog.solution_notebook(found.name), found.function_names)
    given = _program("The solution", reference.source)
    console = Console()
    place = own.place(found.name)
    if not place.exists():
        console.print(given)
        return
    mine = _program("Yours", submission.read(place, found.function_names).source)
    if console.width < _BESIDE:
        console.print(mine, given)
        return
    beside = Table.grid(expand=True)
    beside.add_column(ratio=1)
    beside.add_column(ratio=1)
    beside.add_row(mine, given)
    console.print(beside)


def _program(title: str, source: str) -> Any:
    from rich.panel import Panel
    from rich.syntax import Syntax

    kept = "\n".join(line for line in source.strip().split("\n") if not line.strip().startswith("### "))
    return Panel(Syntax(kept, "python", theme="ansi_dark", background_color="default", word_wrap=True), title=title)


def print_ending(exercise: str, file: Path) -> None:
    """What comes after full marks: the interviewer's questions, and the solution."""
    console = Console(highlight=False)
    asked = follow_ups(exercise)
    if asked:
        from rich.markdown import Markdown

        console.print("\n[bold]The interviewer goes on[/]")
        report.indented(console, Markdown(asked), 2)
    console.print()
    if file.resolve() == own.place(exercise).resolve():
        console.print(f"`rankup solution {exercise}` shows the solution next to yours.")
    console.print(f"`rankup card {exercise}` draws a card that you can show.")


def print_offer(exercise: str, how: str = "") -> None:
    """Offer a hint, where the same thing has gone wrong several times in a row; `how` one gets it."""
    try:
        cause, times = progress.cause(exercise)
        left = len(hints(exercise)) - progress.hints_given(exercise)
    except BadRequest:  # where nothing can be remembered, nothing is offered
        return
    if times >= TRIES and left > 0:
        told = f"\n{times} times in a row: {cause}. {how or f'`rankup hint {exercise}`'} shows the next hint."
        print(says.wrapped(told, sys.stdout))
