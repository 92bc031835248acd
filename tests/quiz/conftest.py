"""A folder of cards, progress of its own for each test, and a learner who types what the test says."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from grader.quiz import session
from grader.quiz.plan import Wanted

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

Run = Callable[..., tuple[int, str]]
Decks = Callable[..., Path]


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's progress is kept."""
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "quiz.sqlite3"


@pytest.fixture
def decks(tmp_path: Path) -> Decks:
    """Write decks of plain cards: decks(d06=["a", "b"]) has the questions "Question a?" and the answers "Answer a."."""

    def write(**cards: Iterable[str]) -> Path:
        folder = tmp_path / "cards"
        folder.mkdir(exist_ok=True)
        for name, ids in cards.items():
            text = f'---\ndeck: "{name[1:]}"\ntitle: Deck {name}\n---\n'
            for each in ids:
                text += f"\n## {each}\nlevel: mid\ntopic: t\nkind: qa\n\nQuestion {each}?\n\n---\n\nAnswer {each}.\n"
            (folder / f"{name[1:]}.md").write_text(text)
        return folder

    return write


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Hold a session in this process, at `now`; what is typed runs out as at the end of a file."""

    def hold(
        folder: Path,
        typed: Iterable[str | type[BaseException]],
        *,
        deck: str | None = None,
        wanted: Wanted | None = None,
        new: int | None = 10,
        now: datetime = NOON,
    ) -> tuple[int, str]:
        lines, shown = iter(typed), io.StringIO()

        def read(prompt: str) -> str:
            shown.write(prompt)
            for line in lines:
                shown.write("\n")
                if isinstance(line, str):
                    return line
                raise line
            raise EOFError

        console = Console(file=shown, width=100)
        wanted = wanted or Wanted(decks=(deck,) if deck else ())
        status = session.run(wanted, new, folder, now=lambda: now, read=read, console=console)
        return status, shown.getvalue()

    return hold
