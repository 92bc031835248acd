"""A session in a process of its own: through pipes, on a pseudo-terminal, killed, and beside another."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from grader.quiz import store

CODE = """
import sys
from pathlib import Path
if sys.stdin.isatty():
    import fcntl, termios
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal
from grader.quiz import plan, session
sys.exit(session.run(plan.Wanted(), 10, Path(sys.argv[1])))
"""
LIMIT = 60  # seconds to wait for what must come; only a test that fails waits so long


class Learner:
    """Types into a session and reads what it shows."""

    def __init__(self, folder: Path, *, terminal: bool = False) -> None:
        inner, outer = pty.openpty() if terminal else (None, None)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", CODE, str(folder)],
            stdin=subprocess.PIPE if outer is None else outer,
            stdout=subprocess.PIPE if outer is None else outer,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"},
        )
        if inner is None or outer is None:
            assert self.process.stdin
            assert self.process.stdout
            self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        else:
            os.close(outer)
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
        while self._read():
            pass
        return self.process.wait(LIMIT)

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


@pytest.fixture
def learner() -> Iterator[Callable[..., Learner]]:
    there: list[Learner] = []

    def sit_down(folder: Path, *, terminal: bool = False) -> Learner:
        there.append(Learner(folder, terminal=terminal))
        return there[-1]

    yield sit_down
    for each in there:
        each.close()


def answered() -> list[tuple[str, int]]:
    with store.opened() as progress:
        return [(card, rating) for card, rating, _ in progress.reviews()]


def test_a_session_through_pipes(decks: Any, learner: Any) -> None:
    me = learner(decks(d06=["a", "b"]))
    me.type("\n3\n\n4\n")
    assert me.ends() == 0
    assert answered() == [("a", 3), ("b", 4)]
    assert "Answered 2" in me.shown
    assert "\x1b" not in me.shown


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_shows_before_it_is_asked_for(decks: Any, learner: Any, terminal: bool) -> None:
    me = learner(decks(d06=["a"]), terminal=terminal)
    me.sees("Enter shows the answer")
    assert "Answer a" not in me.shown
    me.type("\n")
    me.sees("q quit:")
    me.type("3\n")
    assert me.ends() == 0
    assert answered() == [("a", 3)]


def test_an_input_that_ends_ends_the_session_well(decks: Any, learner: Any) -> None:
    me = learner(decks(d06=["a", "b"]))
    me.type("\n3\n\xff")
    me.close_input()
    assert me.ends() == 0
    assert answered() == [("a", 3)]
    assert "Traceback" not in me.shown


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_ctrl_c_and_ctrl_d_on_a_terminal_keep_what_was_answered(decks: Any, learner: Any, key: str) -> None:
    me = learner(decks(d06=["a", "b"]), terminal=True)
    me.sees("Enter shows the answer")
    me.type("\n")
    me.sees("q quit:")
    me.type("3\n")
    me.sees("Enter shows the answer")
    me.interrupts(key)
    assert me.ends() == 0
    assert "Answered 1" in me.shown
    assert "Traceback" not in me.shown
    assert answered() == [("a", 3)]


def test_a_session_that_is_killed_loses_no_answer(decks: Any, learner: Any) -> None:
    me = learner(decks(d06=["a", "b", "c"]))
    for rating, following in (("3", "2 of 3"), ("4", "3 of 3")):
        me.type(f"\n{rating}\n")
        me.sees(following)
    me.process.send_signal(signal.SIGKILL)
    assert me.ends() == -signal.SIGKILL
    assert answered() == [("a", 3), ("b", 4)]
    again = learner(decks(d06=["a", "b", "c"]))
    again.sees("Question c?")


def test_two_sessions_at_once_share_the_progress(decks: Any, learner: Any) -> None:
    folder = decks(d06=["a", "b", "c"])
    one, two = learner(folder), learner(folder)
    for each in (one, two):
        each.sees("Question a?")
    one.type("\n3\n\n4\n")
    one.sees("Question c?")
    two.type("\n3\n")  # it showed a too; b is answered, so c is next
    two.sees("Question c?")
    two.type("\n4\n")
    assert two.ends() == 0
    one.type("q\n")
    assert one.ends() == 0
    assert "Question b?" not in two.shown
    assert answered() == [("a", 3), ("b", 4), ("a", 3), ("c", 4)]


def test_the_scheduler_is_not_loaded_before_a_session() -> None:
    code = "import sys, grader.cli; sys.exit(bool({'fsrs', 'rich.markdown', 'sqlite3'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
