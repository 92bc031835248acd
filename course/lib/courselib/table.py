"""Tables of a run's numbers, as Markdown, which every notebook front end sets in columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


class Table:
    """A Markdown table that shows itself where it is the last value of a cell."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_markdown_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> Table:
    """The rows below their head. Raises ValueError where a row is not as long as the head."""
    lines: list[list[object]] = [[*head], ["---"] * len(head), *([*row] for row in rows)]
    for line in lines:
        if len(line) != len(head):
            raise ValueError(f"{len(line)} cells below a head of {len(head)}: {line}")
    return Table("\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines))


def _cell(value: object) -> str:
    return str(value).replace("|", r"\|")


def goals(reached: Mapping[str, bool]) -> Table:
    """What a puzzle asks for, and whether the reader's answer has it."""
    return table(["goal", "reached"], [[goal, "yes" if done else "**not yet**"] for goal, done in reached.items()])
