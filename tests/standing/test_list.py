"""`rankup list` at 80 columns: every row on a line of its own, and one chapter alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from grader.standing import terminal
from grader.standing.gather import Asked, Cards, Part, Practice, Standing
from grader.submission import BadRequest

LONG = Practice("gradient_accumulation", "Gradient accumulation", 180, 20, points=20, attempts=13)
PART = Part("07", "A title that is far too long for one line of so few columns", True, 50, 50, (LONG,),
            Cards(100, 100, 12), Asked(3, 5))  # fmt: skip
STANDING = Standing((PART,), datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_a_row_is_a_line_and_only_its_title_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show(STANDING)
    first, second, *_ = (" ".join(line.split()) for line in capsys.readouterr().out.splitlines())
    assert first.startswith("07 A title that")
    assert first.endswith("… 100% read 100/100 cards 12 due interviews 60%")
    assert second == "✓ gradient_accumulation 180 min 20/20 points 13 tries"


def test_one_chapter_alone(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show(STANDING, "7")
    said = capsys.readouterr().out
    assert "Gradient accumulation\n" in said
    assert "rankup lab 07" in said
    with pytest.raises(BadRequest, match="no chapter is called '16'; they are 00 to 07"):
        terminal.show(STANDING, "16")
