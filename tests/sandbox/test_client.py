"""The one reader of a box, against a box that the test itself plays."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from grader.sandbox import client, endings, frames, packets, program
from grader.sandbox.client import Beyond, Client, Gone, Overdue, Patience, line_in
from grader.sandbox.endings import Raised
from grader.sandbox.warm import Box

MOST_PRINTED, MOST_SENT = 100, 10_000


@dataclass
class Played:
    """A box of two processes, and the ends of it that are theirs and their keeper's."""

    client: Client
    keeper: packets.Packets
    frames: list[socket.socket]
    stdout: list[int]

    def keep(self, **told: Any) -> None:
        self.keeper.put(json.dumps(told).encode())

    def say(self, number: int, **header: Any) -> None:
        self.frames[number].sendall(frames.pack_message(header))


@pytest.fixture
def played() -> Iterator[Played]:
    ours, keeper = packets.pair()
    pairs = [socket.socketpair() for _ in range(2)]
    out, err = [os.pipe() for _ in range(2)], [os.pipe() for _ in range(2)]
    box = Box(
        ours,
        [mine for mine, _ in pairs],
        [read for read, _ in out],
        [read for read, _ in err],
        cpu=[0.0, 0.0],
        delayed=[0.0, 0.0],
    )
    played = Played(
        Client(box, 5.0, MOST_PRINTED, MOST_SENT), keeper, [yours for _, yours in pairs], [write for _, write in out]
    )
    yield played
    keeper.close()
    played.client.close()
    for sock in played.frames:
        sock.close()
    for fd in (*played.stdout, *(write for _, write in err)):
        os.close(fd)


def test_messages_come_in_order_and_of_each_process_apart(played: Played) -> None:
    played.say(1, n=1)
    played.say(0, n=2)
    played.say(1, n=3)
    client = played.client
    assert [client.wait(number, Patience(wall=5)).header["n"] for number in (0, 1, 1)] == [2, 1, 3]


def test_what_was_said_before_an_end_is_heard_before_it(played: Played) -> None:
    played.say(0, n=1)
    played.keep(rank=0, status=-9)
    assert played.client.wait(0, Patience(wall=5)).header == {"n": 1}
    with pytest.raises(Gone) as gone:
        played.client.wait(0, Patience(wall=5))
    assert gone.value.status == -9


def test_with_the_keeper_all_are_gone(played: Played) -> None:
    played.keeper.close()
    with pytest.raises(Gone):
        played.client.wait(1, Patience(wall=5))
    assert not played.client.kept


@pytest.mark.parametrize(
    ("patience", "limit", "words"),
    [
        (Patience(cpu=0.5, wall=5), "cpu", "used more than 0.5 s of CPU time"),
        (Patience(silent=0.01, wall=5), "silent", "neither sent nor received anything for 0.01 s"),
        (Patience(wall=0.01), "wall", "was not done after 0.01 s"),
    ],
)
def test_an_answer_that_takes_too_long_is_overdue(played: Played, patience: Patience, limit: str, words: str) -> None:
    if limit == "cpu":
        played.keep(cpu=[2.0, 0.0], delayed=[0.0, 0.0])
    with pytest.raises(Overdue) as overdue:
        played.client.wait(0, patience)
    assert (overdue.value.limit, str(overdue.value)) == (limit, words)


def test_nobody_stands_still_before_the_keeper_has_seen_it(played: Played) -> None:
    """On a busy machine the keeper's news come late: whoever is ready to compute does not stand still."""
    asked = []

    def look() -> None:
        for ready in (True, True, False):
            asked.append(played.keeper.take())
            played.keep(ready=ready)

    keeper = threading.Thread(target=look)
    keeper.start()
    with pytest.raises(Overdue) as overdue:
        played.client.wait(0, Patience(idle=0.01, wall=60))
    keeper.join()
    assert asked == [b"look"] * 3
    assert (overdue.value.limit, str(overdue.value)) == ("idle", "stood still for 0.01 s")


@pytest.mark.parametrize("limit", ["silent", "wall"])
def test_time_without_a_processor_does_not_count(played: Played, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a right solution takes longer by the clock, and must not lose points for it."""
    monkeypatch.setattr(client, "MOST_STRETCH", 1000)
    looks = []

    def look() -> None:
        for delayed in (60.0, 0.0):
            looks.append(played.keeper.take())
            played.keep(cpu=[0.0, 0.0], delayed=[delayed, 0.0])
            played.keep(ready=True)

    keeper = threading.Thread(target=look)
    keeper.start()
    with pytest.raises(Overdue) as overdue:
        played.client.wait(0, Patience(**{limit: 0.3}))
    keeper.join()
    assert (overdue.value.limit, looks) == (limit, [b"look"] * 2)


def test_a_keeper_that_says_nothing_is_no_sign_that_nobody_computes(played: Played) -> None:
    with pytest.raises(Overdue) as overdue:
        played.client.wait(0, Patience(idle=0.01, wall=0.3))
    assert overdue.value.limit == "wall"


def read_on(client: Client) -> None:
    while True:
        client.read(1.0)


def print_much(played: Played) -> None:
    for fd in played.stdout:
        os.write(fd, b"x" * (MOST_PRINTED // 2))


def send_much(played: Played) -> None:
    for number in range(200):
        played.say(0, n=number, text="x" * 100)


def pass_a_limit(played: Played) -> None:
    played.keep(limit="memory", used=2**21, allowed=2**20, rank=1)


@pytest.mark.parametrize(
    ("act", "limit", "number"), [(print_much, "printing", None), (send_much, "frames", 0), (pass_a_limit, "memory", 1)]
)
def test_a_limit_of_the_box_ends_the_wait(
    played: Played, act: Callable[[Played], None], limit: str, number: int | None
) -> None:
    act(played)
    with pytest.raises(Beyond) as beyond:
        read_on(played.client)
    assert beyond.value.limit == limit
    assert number is None or beyond.value.number == number


@pytest.mark.parametrize("rubbish", [b"x" * 20, b"J\xff\xff\xff\xff" + b"x" * 9], ids=["no frame", "too long"])
def test_rubbish_is_no_message(played: Played, rubbish: bytes) -> None:
    played.frames[0].sendall(rubbish)
    with pytest.raises(frames.FrameError):
        played.client.wait(0, Patience(wall=5))


def test_output_is_kept_up_to_the_limit(played: Played) -> None:
    os.write(played.stdout[1], "€".encode() * 10)
    played.client.read_what_was_printed()
    assert played.client.printed.text("stdout", 1) == "€" * 10


def test_a_limit_is_told_in_the_words_of_who_asks() -> None:
    sentences = {"memory": "{who} took {used:g} MiB of {allowed:g} MiB", "": "{used:g} of {limit}"}
    assert endings.beyond(Beyond("memory", 2**21, 2**20), sentences, who="it") == (
        "out_of_memory", "it took 2 MiB of 1 MiB",
    )  # fmt: skip
    assert endings.beyond(Beyond("cpu", 3, 2), sentences) == ("timeout", "3 of cpu")
    assert endings.beyond(Beyond("frames", 3, 2), sentences) == endings.NO_ANSWER


@pytest.mark.parametrize(
    ("status", "words"),
    [(3, "ended with exit status 3"), (-9, "was killed by SIGKILL"), (-60, "was killed by signal 60")],
)
def test_how_a_process_ended_is_told(status: int, words: str) -> None:
    assert endings.died(status) == words


PROGRAMS = {
    "no Python": ("x = (", "compile", ("SyntaxError", "'(' was never closed", 1)),
    "an error in a function": ("def f():\n    1 / 0\n\nf()", "load", ("ZeroDivisionError", "division by zero", 2)),
    "an exit": ("raise SystemExit(2)", "load", ("SystemExit", "2", 1)),
    "an error elsewhere": ("import json\njson.loads('{')", "load", ("JSONDecodeError", "Expecting", 2)),
}


@pytest.mark.parametrize(("source", "stage", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_what_a_program_raises_is_told_at_its_own_line(source: str, stage: str, expected: tuple[str, str, int]) -> None:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - whatever the program raises
        program.load(compile(source, "mine.py", "exec"), source, "mine.py", listed=False)
    error = Raised.read(program.raised(caught.value, "mine.py", stage))
    kind, text, line = expected
    assert (error.type, error.text[: len(text)], error.line, error.stage) == (kind, text, line, stage)
    said = endings.raised(error, "mine.py", "", " when it was loaded")
    assert said[0] == ("syntax_error" if stage == "compile" else "crash")


def test_what_a_process_makes_up_of_an_error_is_read_with_care() -> None:
    error = Raised.read({"type": "X" * 1000, "text": "\x1b[2J", "line": "7"})
    assert (len(error.type), error.text, error.line) == (endings.MOST_NAME, "\N{REPLACEMENT CHARACTER}[2J", None)


def test_the_innermost_line_of_a_file_is_found_in_a_dump() -> None:
    dump = 'Thread 0x1:\n  File "ours.py", line 1 in x\n  File "a.py", line 7 in f\n  File "a.py", line 9 in g\n'
    assert (line_in(dump, "a.py"), line_in(dump, "b.py")) == (7, None)
