"""Programs that go on and get nowhere: each is ended by a count of its own, and named with rank and line."""

from __future__ import annotations

import textwrap

import pytest

from grader.ranks import endless
from grader.ranks.engines import Engines
from grader.ranks.program import Function, Limits, Program, Run, same_for_all

HEAD = (
    "import os, time, torch, torch.distributed as dist\ndef f():\n"
    "    r, n, x = dist.get_rank(), dist.get_world_size(), torch.ones(4)\n"
)
# body, ending, rank, line, words of the sentence
ENDLESS = {
    "polls a receive": (
        "if r == 0: dist.send(x, 1)\nif r == 1:\n    q = dist.irecv(x, 0)\n    while not q.is_completed(): pass",
        "timed_out", 1, 7,
        "asked 100,001 times in a row (line 7: `while not q.is_completed(): pass`) whether its irecv from rank 0 (",
    ),
    "polls and sleeps": (
        "if r == 1:\n    q = dist.isend(x, 0)\n    while not q.is_completed():\n        time.sleep(1e-3)",
        "timed_out", 1, 6, "stays False until wait()",
    ),
    "polls a collective that one leaves": (
        "if r:\n    w = dist.all_reduce(x, async_op=True)\n    while not w.is_completed(): pass",
        "left_early", 0, 5, "Rank 0 never made this call",
    ),
    "polls two collectives": (
        "g = [dist.new_group([0, 1, 2]) for _ in range(2)]\n"
        "w = dist.all_reduce(x, group=g[r % 2], async_op=True)\nwhile not w.is_completed(): pass",
        "deadlocked", 0, 6, "rank 0 waits in all_reduce (line 6: `while not w.is_completed(): pass`)",
    ),
    "waits for a file": (
        "while r == 1 and not os.path.exists('ready'): time.sleep(0.1)\ndist.barrier()",
        "timed_out", 1, 4, "slept 3,600 s of virtual time",
    ),
    "sleeps for weeks": (
        "if r == 2: time.sleep(1e7)", "timed_out", 2, 4, "slept 10,000,000 s of virtual time in one call"
    ),
}  # fmt: skip
RIGHT = {
    "polls until it is over": (
        "if r: time.sleep(3)\nw = dist.all_reduce(x, async_op=True)\nwhile not w.is_completed(): pass"
    ),
    "polls with a deadline": (
        "q, p = dist.irecv(torch.zeros(4), (r - 1) % n), dist.isend(x, (r + 1) % n)\nsince = time.time()\n"
        "while not q.is_completed() and time.time() - since < 5: pass\nq.wait(); p.wait()"
    ),
    "waits on the clock": (
        "since = time.perf_counter()\nwhile time.perf_counter() - since < 2: pass\nassert time.perf_counter() < 2.01"
    ),
    "sleeps in turns": "for _ in range(5000): time.sleep(0.5)\ndist.barrier()",
    "the same for long": "for _ in range(1000): dist.barrier()",
    "all compute for longer than one may": (
        "since = time.process_time()\nwhile time.process_time() - since < 0.4: pass\ndist.barrier()"
    ),
}  # fmt: skip


def run(engines: Engines, engine: str, body: str, cpu: float = 20) -> Run:
    program = Program(HEAD + textwrap.indent(body, "    "), "learner.py", (Function("f"),), watched=True)
    limits = Limits(cpu_seconds=cpu, idle_seconds=20, silent_seconds=60, wall_seconds=600)
    return engines.run(engine, program, 3, [same_for_all(3)], 1, limits, strictly=True)


@pytest.mark.parametrize(("body", "ending", "rank", "line", "words"), ENDLESS.values(), ids=ENDLESS)
def test_it_is_ended_and_named(engines: Engines, body: str, ending: str, rank: int, line: int, words: str) -> None:
    done = run(engines, "sim", body)
    found = done.diagnoses[0]
    assert (done.ending, found.rank, found.line) == (ending, rank, line), found.message
    assert words in found.message


@pytest.mark.parametrize("name", ["polls a receive", "polls a collective that one leaves"])
def test_it_is_ended_and_named_on_real_processes(engines: Engines, name: str) -> None:
    body, ending, rank, line, _ = ENDLESS[name]
    done = run(engines, "gloo", body)
    assert (done.ending, done.diagnoses[0].rank, done.diagnoses[0].line) == (ending, rank, line), done.diagnoses


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_what_ends_by_itself_gets_no_word(engines: Engines, body: str) -> None:
    done = run(engines, "sim", body, 0.9)
    assert (done.ending, done.diagnoses) == ("finished", ())


@pytest.mark.heavy
def test_a_state_that_repeats_is_ended(engines: Engines) -> None:
    done = run(engines, "sim", "while True:\n    dist.all_reduce(x)\n    x /= n")
    found = done.diagnoses[0]
    assert (done.ending, found.line) == ("timed_out", 5), found.message
    assert "The values repeat" in found.message


def test_repeats_are_counted_in_a_row() -> None:
    repeats = endless.Repeats()
    for value in (1, 2, 1, 2, 3, 1, 1):
        repeats.brought((5, 1, 0), value)
    assert repeats.count == 2
    repeats.brought((6, 1, 0), 1)
    assert repeats.count == 0, "another line"


def test_the_limit_is_of_each_rank(engines: Engines) -> None:
    done = run(engines, "sim", "while r == 1: pass", 0.5)
    assert (done.ending, done.diagnoses[0].rank, done.diagnoses[0].line) == ("timed_out", 1, 4)
    assert "used 0.5 s of CPU time without sending, receiving or waiting" in done.diagnoses[0].message
