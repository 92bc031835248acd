"""A session in a process of its own: through pipes, on a pseudo-terminal, killed, and beside another."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

from grader.quiz import store


def answered() -> list[tuple[str, int]]:
    with store.opened() as progress:
        return [(card, rating) for card, rating, _ in progress.reviews()]


def test_a_session_through_pipes(decks: Any, learner: Any) -> None:
    me = learner(decks(d06=["a", "b"]))
    me.type("\n4\n\n4\n")
    assert me.ends() == 0
    assert answered() == [("a", 4), ("b", 4)]
    assert "Answered 2" in me.shown
    assert "\x1b" not in me.shown


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_shows_before_it_is_asked_for(decks: Any, learner: Any, terminal: bool) -> None:
    me = learner(decks(d06=["a"]), terminal=terminal)
    me.sees("Enter shows the answer")
    assert "Answer a" not in me.shown
    me.type("\n")
    me.sees("q quit:")
    me.type("4\n")
    assert me.ends() == 0
    assert answered() == [("a", 4)]


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
