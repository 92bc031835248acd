"""The grading service behind its socket, asked by a kernel that is not to be trusted."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.classroom import check, door
from grader.classroom.door import Door, Record
from grader.classroom.lines import Process
from grader.classroom.service import FILE, Service
from grader.submission import BadRequest, Submission
from grader.verdict import Verdict

SOURCE = "def ring_all_reduce(tensor):\n    pass\n"


class Counting(Service):
    """Says how often it was asked to grade, and grades nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str, int | None]] = []

    def grade(self, name: str, submission: Submission, seed: int | None = None) -> Verdict:
        self.asked.append((name, submission.name, seed))
        return Verdict(name, (), len(self.asked), 0.0, ())


@pytest.fixture
def service() -> Iterator[Counting]:
    with Counting() as counting:
        yield counting


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="rankup-test-") as folder:
        yield str(Path(folder, "s"))


@pytest.fixture
def ours(service: Counting, path: str) -> Iterator[Door]:
    with Door(service, path) as opened:
        yield opened


def ask(path: str, *lines: bytes) -> list[Any]:
    """The answers to some lines over one connection; fewer where it was closed."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        with connection.makefile("rwb") as both:
            answers = []
            for line in lines:
                both.write(line + b"\n")
                both.flush()
                answers.append(both.readline())
    return [json.loads(answer) for answer in answers if answer]


def grading(source: str = SOURCE, **more: Any) -> bytes:
    return json.dumps({"grade": "ring_all_reduce", "cells": [source], "file": "x.py", "seed": None, **more}).encode()


def test_the_same_source_is_graded_once_whoever_asks(service: Counting, ours: Door, path: str) -> None:
    said = ask(path, grading(), grading(SOURCE + "\n\n")) + ask(path, grading())
    assert [answer["verdict"]["seed"] for answer in said] == [1, 1, 1]
    assert ours.record.verdict("ring_all_reduce", Submission(SOURCE, FILE)).seed == 1
    assert len(service.asked) == 1


def test_a_kernel_cannot_choose_the_seed_or_the_name(service: Counting, ours: Door, path: str) -> None:
    ask(path, grading(seed=7, file="../../etc/passwd"))
    assert service.asked == [("ring_all_reduce", FILE, None)]


def test_only_so_many_sources_are_graded(service: Counting, ours: Door, path: str) -> None:
    said = ask(path, *(grading(f"{SOURCE}# {number}") for number in range(door.MOST_SOURCES + 1)))
    assert said[-1]["error"].startswith(f"this notebook has had {door.MOST_SOURCES} solutions graded")
    assert "verdict" in said[-2]
    handed_in = ours.record.verdict("ring_all_reduce", Submission(SOURCE, FILE))
    assert handed_in.seed == door.MOST_SOURCES + 1, "what was handed in is graded, whatever the kernel asked before"


def test_only_so_many_runs_are_played(
    service: Counting, ours: Door, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "answer", lambda self, request, limits: json.dumps({"seed": request["seed"]}))
    playing = json.dumps({"play": "f", "source": SOURCE, "seed": 7}).encode()
    said = ask(path, *[playing] * (door.MOST_PLAYS + 1))
    assert said[0] == {"seed": None}
    assert said[-1]["error"].startswith(f"this notebook has called play() {door.MOST_PLAYS} times")


# what no honest kernel sends
ODD = {
    "no JSON": b"import os",
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "no source": b'{"grade": "ring_all_reduce"}',
    "source of numbers": b'{"grade": "ring_all_reduce", "cells": [1]}',
    "a long source": json.dumps({"grade": "ring_all_reduce", "cells": ["x" * (door.SOURCE_BYTES + 1)]}).encode(),
    "no such exercise": b'{"grade": "__init__", "cells": [""]}',
    "a path": b'{"grade": "../../etc/passwd", "cells": [""]}',
    "a number": b'{"grade": 7, "cells": [""]}',
    "no text": b"\xff\xfe",
    "half a play": b'{"play": "f", "source": ""}',
    "odd seed": b'{"play": "f", "source": "", "seed": "x", "arguments": null}',
}


@pytest.mark.parametrize("line", ODD.values(), ids=ODD.keys())
def test_odd_requests_are_refused_and_the_next_is_served(ours: Door, path: str, line: bytes) -> None:
    refused, served = ask(path, line, grading())
    assert list(refused) == ["error"]
    assert "verdict" in served


def test_a_request_that_is_too_long_ends_the_connection(ours: Door, path: str) -> None:
    assert ask(path, b"x" * (door.REQUEST_BYTES + 2)) == [{"error": "this request is too long"}]
    assert "verdict" in ask(path, grading())[0]


# play's arguments, and what is said of them
ARGUMENTS = [
    ([[{"values": [1], "dtype": "O"}]], "play() takes tensors of dtype bool"),
    ([[{"values": "", "dtype": "S1000000000"}]], "play() takes tensors of dtype bool"),
    ([[{"values": [0] * (2**20 + 1), "dtype": "int8"}]], "play() takes at most 1,048,576 tensor values"),
    (7, "this request failed"),
]


@pytest.mark.parametrize(("arguments", "said"), ARGUMENTS, ids=[said for _, said in ARGUMENTS])
def test_arguments_are_plain_numbers(arguments: Any, said: str) -> None:
    request = {"play": "f", "source": SOURCE, "file": FILE, "ranks": 1, "arguments": arguments, "seed": None}
    with Service() as real:
        assert json.loads(real.answer(request))["error"].startswith(said)


def test_nothing_is_served_through_a_closed_door(ours: Door, path: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(b"[]\n")
        assert b"error" in connection.recv(1000)
        ours.close()
        assert connection.recv(1) == b""
    assert not Path(path).exists()


def test_a_failed_grading_is_told_to_all_who_wait_for_it(service: Counting) -> None:
    record = Record(service)
    with pytest.raises(BadRequest, match="no exercise"):
        record.verdict("nothing_like_it", Submission(SOURCE, FILE))


def test_check_asks_the_service_that_the_environment_names(
    ours: Door, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(check.SERVICE, path)
    client = check._Client()
    assert client.grade("ring_all_reduce", [SOURCE], 7, fresh=True).seed == 1
    ours.close()
    with pytest.raises(BadRequest, match="the grading service ended"):
        client.ask({"grade": "ring_all_reduce", "source": SOURCE})
    assert not client.alive
    with pytest.raises(BadRequest, match="the grading service cannot be reached"):
        check._Client()


def test_the_service_as_a_process_of_its_own() -> None:
    service = Process([sys.executable, "-m", "grader.classroom.service"])
    try:
        for line in {**ODD, "a long source": b"{}"}.values():  # that is for the door to refuse
            os.write(service._to, line + b"\n")
            assert list(service.hear() or {}) == ["error"]
        service.finish(60)
        assert service.last_words()[1] == 0
    finally:
        service.end()
