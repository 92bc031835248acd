"""Where the learner stands, in the terminal and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from grader.standing.advice import steps
from grader.standing.gather import Part, Practice, Standing
from grader.submission import BadRequest

_GAP = 2
_NUMBER = 2 + _GAP  # columns of a chapter
_LEAST_TITLE = 16


def show(standing: Standing, chapter: str | None = None) -> None:
    """Chapters and exercises with what was reached in each, and what to do next; or one chapter. Raises BadRequest."""
    console = Console(highlight=False)
    if chapter is not None:
        part = next((part for part in standing.parts if part.id == chapter.zfill(2)), None)
        if part is None:
            last = standing.parts[-1].id
            raise BadRequest(f"no chapter is called {chapter!r}; they are 00 to {last}, or leave it out")
        _show_part(console, part)
        return
    rows = [row for part in standing.parts for row in (_chapter(part), *map(_exercise, part.exercises))]
    facts = [max(len(each) for each in column) for column in list(zip(*rows, strict=True))[2:]]
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, _GAP, 0, 0))
    table.add_column(no_wrap=True)
    room = max(console.width - sum(facts) - _GAP * len(facts) - _NUMBER, _LEAST_TITLE)
    table.add_column(no_wrap=True, overflow="ellipsis", width=room)
    for _ in facts:
        table.add_column(justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print("\n[bold]What to do next[/]")
    for number, step in enumerate(steps(standing), start=1):
        console.print(f"{number}. {escape(step.what)}: {escape(step.why)}.")
        console.print(f"     {escape(step.command)}", style="cyan", soft_wrap=True)


def _show_part(console: Console, part: Part) -> None:
    """One chapter, with its exercises by their titles."""
    console.print(" ".join(filter(None, (part.id, f"[bold]{escape(part.title)}[/]"))))
    told = ", ".join(filter(None, _chapter(part)[2:]))
    if told:
        console.print(f"    {told}")
    for each in part.exercises:
        _, name, *facts = _exercise(each)
        console.print(f"\n  {name}  {', '.join(filter(None, facts))}")
        console.print(f"    [dim]{escape(each.title)}[/]")
    console.print(f"\n  rankup lab {part.id}", style="cyan")


def show_next(standing: Standing) -> None:
    """Print the one thing to do next."""
    [step] = steps(standing, 1)
    console = Console(highlight=False)
    console.print(f"\n[bold]Next:[/] {escape(step.what)}, because {escape(step.why)}.\n  {step.command}")


def _chapter(part: Part) -> list[str]:
    title = f"[bold]{escape(part.title)}[/]" if part.written else f"[dim]{escape(part.title)} (not written yet)[/]"
    read = f"{part.read:.0%} read" if part.run else ""
    cards = f"{part.cards.seen}/{part.cards.total} cards" if part.cards.total else ""
    due = f"{part.cards.due} due" if part.cards.due else ""
    asked = f"interviews {part.asked.share:.0%}" if part.asked.points else ""
    return [part.id, title, read, cards, due, asked]


def _exercise(each: Practice) -> list[str]:
    mark = "[green]✓[/] " if each.done else "  "
    reached = f"{each.points or 0:g}/{each.max_points:g} points"
    tries = "" if not each.attempts else "1 try" if each.attempts == 1 else f"{each.attempts} tries"
    return ["", f"{mark}{escape(each.name)}", f"{each.minutes} min", reached, tries, ""]


def to_json(standing: Standing) -> dict[str, Any]:
    """The same as an object: chapters with reading, exercises, cards and interviews, and the next steps."""
    return {
        "at": standing.now.isoformat(),
        "points": standing.points,
        "max_points": standing.max_points,
        "cards_due": standing.due,
        "chapters": [
            {
                "id": part.id,
                "title": part.title,
                "cells": part.cells,
                "cells_run": part.run,
                "exercises": [
                    {"name": each.name, "points": each.points, "max_points": each.max_points,
                     "attempts": each.attempts, "minutes": each.minutes}
                    for each in part.exercises
                ],
                "cards": {"total": part.cards.total, "seen": part.cards.seen, "due": part.cards.due},
                "interview": {"met": part.asked.met, "points": part.asked.points},
            }
            for part in standing.parts
        ],
        "next": [{"command": step.command, "what": step.what, "why": step.why} for step in steps(standing)],
    }  # fmt: skip
