"""Sessions killed at random moments: at most the review in progress is lost, and the database stays whole."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from often import by_day, often

from grader.quiz import store

CODE = """
import sys
from pathlib import Path
from grader.quiz import front, plan
sys.exit(front.quiz(plan.Wanted(), 1000, Path(sys.argv[1]), in_lines=True))
"""


@pytest.mark.parametrize(
    ("reviews", "seed"), [*often({"12": (12, 1)}, "12"), *by_day({"200": (200, 2), "200 again": (200, 3)}, 2)]
)
def test_a_kill_loses_at_most_the_review_in_progress(
    decks: Any, learner: Any, database: Path, reviews: int, seed: int
) -> None:
    drawn = random.Random(seed)
    folder = decks(d06=[f"c{number:03}" for number in range(2 * reviews + 50)])
    kept: list[tuple[str, int, Any]] = []
    kills = 0
    while len(kept) < reviews:
        me = learner(folder, code=CODE)
        me.sees("Enter shows the answer")
        sure = drawn.randrange(8)  # answers whose following question was seen, before the kill
        for _ in range(sure):
            me.type("\n4\n")
            me.sees("Enter shows the answer")
        me.type("\n4\n")
        os.read(me._out, drawn.randrange(1, 700))  # a moment while it works: so many of its bytes have come
        me.process.send_signal(signal.SIGKILL)
        assert me.process.wait() == -signal.SIGKILL
        kills += 1
        with closing(sqlite3.connect(database)) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        with store.opened() as progress:
            now = progress.reviews()
            assert now[: len(kept)] == kept
            assert sure <= len(now) - len(kept) <= sure + 1
            assert set(progress.memories()) == {card for card, _, _ in now}  # both halves of each answer
        kept = now
    assert len({card for card, _, _ in kept}) == len(kept)  # nothing was asked twice
    assert kills >= reviews / 9


STATEMENTS = """
import os, signal, sqlite3, sys
from datetime import UTC, datetime
from grader.quiz import store
left = int(sys.argv[2])
def trace(statement):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
with store.opened() as progress:
    progress._connection.set_trace_callback(trace)
    progress.answer("c2", 3, datetime(2026, 3, 1, tzinfo=UTC))
"""


@pytest.mark.parametrize("statement", [1, 4, *(pytest.param(at, marks=pytest.mark.heavy) for at in (2, 3, 5, 6))])
def test_a_kill_before_any_statement_of_an_answer_keeps_none_of_it(
    tmp_path: Path, learner: Any, database: Path, statement: int
) -> None:
    with store.opened() as progress:
        progress.answer("c1", 3, store.datetime(2026, 2, 1, tzinfo=store.UTC))
        before = progress.reviews(), progress.memories()
    me = learner(tmp_path, str(statement), code=STATEMENTS)
    assert me.ends() == -signal.SIGKILL
    with closing(sqlite3.connect(database)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with store.opened() as progress:
        assert (progress.reviews(), progress.memories()) == before
