"""Pictures in the cells of a terminal: words stand where the picture has them; one that is unreadable is not shown."""

from __future__ import annotations

import pytest
from runs import RUNS

from grader.trace import cells, diagram


def svg(name: str) -> str:
    trace, cycle, marks = RUNS[name]()
    return diagram.svg(trace, "Your run", "", cycle, marks)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ring of 4", ["Your run", "rank 0", "rank 3", "4 KiB", "▶", "returns"]),
        ("deadlock of 2", ["in send", "line 16", "forever", "▶", "◀"]),
        ("mismatch", ["not the same collective"]),
        ("training step", ["all_reduce", "computes"]),
    ],
)
def test_words_and_heads_of_arrows_are_there(name: str, words: list[str]) -> None:
    shown = cells.text(svg(name), 110, 80)
    assert shown is not None
    assert [word for word in words if word not in shown.plain] == []
    lines = shown.plain.split("\n")
    assert len(lines) <= 80
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) <= 110
    assert any("⠀" < char <= "⣿" for char in shown.plain), "lines are dots"


@pytest.mark.parametrize(("columns", "rows"), [(40, 80), (110, 8)])
def test_what_could_not_be_read_is_not_shown(columns: int, rows: int) -> None:
    assert cells.text(svg("ring of 4"), columns, rows) is None
