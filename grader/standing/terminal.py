"""Where the learner stands, in the terminal and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from grader.standing.advice import steps
from grader.standing.gather import Part, Practice, Standing


def show(standing: Standing) -> None:
    """Chapters and exercises with what was reached in each, and what to do next."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(ratio=1)
    for _ in range(4):
        table.add_column(justify="right", no_wrap=True)
    for part in standing.parts:
        table.add_row(*_chapter(part))
        for each in part.exercises:
            table.add_row(*_exercise(each))
    console.print(table)
    console.print("\n[bold]What to do next[/]")
    for number, step in enumerate(steps(standing), start=1):
        console.print(f"{number}. {escape(step.what)}: {escape(step.why)}.")
        console.print(f"     {escape(step.command)}", style="cyan", soft_wrap=True)


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
