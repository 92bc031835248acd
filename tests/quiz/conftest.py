"""A folder of cards, progress of its own for each test, and a learner who types what the test says."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from grader.quiz import front
from grader.quiz.plan import Wanted

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

PLAIN = """
import sys
from pathlib import Path
if sys.stdin.isatty():
    import fcntl, termios
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal
from grader.quiz import front, plan
sys.exit(front.quiz(plan.Wanted(), 10, Path(sys.argv[1]), in_lines=True))
"""
LIMIT = 60  # seconds to wait for what must come; only a test that fails waits so long


class Learner:
    """Types into a session and reads what it shows."""

    def __init__(
        self, folder: Path, *words: str, terminal: bool = False, code: str = PLAIN, size: tuple[int, int] = (80, 24)
    ) -> None:
        inner, outer = pty.openpty() if terminal else (None, None)
        self.outer = outer
        if outer is not None:
            fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
            self.settings = termios.tcgetattr(outer)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, str(folder), *words],
            stdin=subprocess.PIPE if outer is None else outer,
            stdout=subprocess.PIPE if outer is None else outer,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", **({} if terminal else {"COLUMNS": "80"})},
        )
        if inner is None or outer is None:
            assert self.process.stdin
            assert self.process.stdout
            self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        else:
            self._in = self._out = inner
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._in, text.encode())

    def sees(self, words: str) -> None:
        """Wait until the words have been shown since this was last asked."""
        seen = ""
        while words not in seen:
            chunk = self._read()
            assert chunk, f"ended before {words!r}: {self.shown!r}"
            seen += chunk

    def ends(self) -> int:
        while self.process.poll() is None or self._more():
            if self._more() and not self._read():
                break
        return self.process.wait(LIMIT)

    def _more(self) -> bool:
        return bool(select.select([self._out], [], [], 0.05)[0])

    def close_input(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def interrupts(self, key: str) -> None:
        """Press a key that is no text, once the session sleeps in its read: a signal just before it would be missed."""
        process = psutil.Process(self.process.pid)
        while process.status() != psutil.STATUS_SLEEPING:
            os.sched_yield()
        self.type(key)

    def _read(self) -> str:
        assert select.select([self._out], [], [], LIMIT)[0], f"nothing more came after {self.shown!r}"
        try:
            chunk = os.read(self._out, 4096).decode(errors="replace")
        except OSError:  # the other end of a pseudo-terminal is closed
            return ""
        self.shown += chunk
        return chunk

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdin and self.process.stdout:
            self.process.stdin.close()
            self.process.stdout.close()
        else:
            os.close(self._in)
            if self.outer is not None:
                os.close(self.outer)


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
        status = front.quiz(wanted, new, folder, in_lines=True, now=lambda: now, read=read, console=console)
        return status, shown.getvalue()

    return hold


@pytest.fixture
def seven(tmp_path: Path) -> Path:
    """A folder with one deck that has a card of each kind."""
    folder = tmp_path / "cards"
    (folder / "pictures").mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "kept" / "seven.md", folder / "06.md")
    (folder / "pictures" / "ring.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    return folder


@pytest.fixture
def learner() -> Iterator[Callable[..., Learner]]:
    there: list[Learner] = []

    def sit_down(folder: Path, *words: str, **how: Any) -> Learner:
        there.append(Learner(folder, *words, **how))
        return there[-1]

    yield sit_down
    for each in there:
        each.close()
