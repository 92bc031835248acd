"""Verdicts that are recorded and compared: what differs is said, what is known is not graded again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from grader import grading, registry
from grader.authoring import verdicts
from grader.authoring.verdicts import Item, Row, Seeded, Wanted
from grader.ranks.engines import Engines
from grader.submission import BadRequest


def group_of(process: Path) -> int:
    """The group of a process that lives; 0 if it does not."""
    try:
        state, _, group, *_ = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if state == "Z" else int(group)


FEW = Wanted(("cost_model",), ("reference", "wrong"), (1, 30))


@pytest.fixture
def graded(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> list[Item]:
    """What was graded: here on the tests' engines, in this process."""
    done: list[Item] = []

    def here(items: Sequence[Seeded], jobs: int) -> Iterator[tuple[Seeded, Row]]:
        for name, each, seed in items:
            done.append((name, each))
            verdict = grading.grade(registry.find(name), verdicts.handed_in(name, each), engines, seed)
            yield (name, each, seed), verdicts.row(each, verdict)

    monkeypatch.setattr(verdicts, "graded", here)
    return done


@pytest.mark.heavy
def test_a_change_of_a_verdict_is_found_and_named(graded: list[Item], tmp_path: Path) -> None:
    said: list[str] = []
    verdicts.record(FEW, tmp_path, 1, said.append)
    assert graded == FEW.items()
    assert 1 < len(graded) < 10
    graded.clear()
    assert verdicts.compare(FEW, tmp_path, 1, said.append) == 0
    assert said[-1] == f"{len(graded)} compared, 0 different"
    file = tmp_path / "cost_model.jsonl"
    changed = [json.loads(line) for line in file.read_text().splitlines()]
    assert changed[0]["submission"] == "reference"
    check = next(iter(changed[0]["checks"]))
    changed[0]["checks"][check] = ["fail", "crash", "It fell.", None, 3, None, None]
    changed[1]["seconds"] += 1000
    file.write_text("".join(json.dumps(row) + "\n" for row in [*changed, {**changed[1], "submission": "wrong/gone"}]))
    graded.clear()
    assert verdicts.compare(FEW, tmp_path, 1, said.append) == 1
    assert graded == [("cost_model", "reference")], "what differs is graded once more, and nothing else"
    assert f'  {check}\n    before: ["fail", "crash", "It fell.", null, 3, null, null]\n    now:    pass' in said[-2]
    everything = Wanted(("cost_model",), ("reference", "wrong"))
    assert verdicts.compare(everything, tmp_path, 1, said.append) == 2
    assert "cost_model wrong/gone\n  there is no such submission any more" in said


def test_what_was_interrupted_goes_on(graded: list[Item], tmp_path: Path) -> None:
    verdicts.record(FEW, tmp_path, 1, lambda line: None)
    whole = (tmp_path / "cost_model.jsonl").read_text()
    (tmp_path / "cost_model.jsonl").write_text(whole[:-20] + "\n")  # cut off while it was written
    graded.clear()
    verdicts.record(FEW, tmp_path, 1, lambda line: None)
    assert graded == FEW.items()[-1:]


def test_shares_are_all_of_it_and_no_submission_twice() -> None:
    parts = [Wanted(("cost_model",), ("right", "wrong"), (mine, 6)).items() for mine in range(1, 7)]
    assert sorted(item for part in parts for item in part) == sorted(
        Wanted(("cost_model",), ("right", "wrong")).items()
    )
    assert all(parts)


@pytest.mark.parametrize("text", ["7/6", "0/6", "1", "a/b", "1/0", "-1/6"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="write the share like 1/6"):
        verdicts.parse_share(text)


def test_bad_requests_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no exercise is called 'nope'"):
        Wanted(("nope",)).items()
    with pytest.raises(BadRequest, match="no kind of submission is called 'x'"):
        Wanted((), ("x",)).items()
    with pytest.raises(BadRequest, match="holds no verdict on any of"):
        verdicts.compare(FEW, tmp_path, 1, print)


@pytest.mark.heavy
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_command_grades_in_processes_and_leaves_none_when_it_is_ended(how: signal.Signals, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "grader.cli", "exercise", "verdicts", "cost_model", "--record", "--at", tmp_path]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as command:
        assert command.stdout is not None
        assert command.stdout.readline().startswith("1/")
        os.killpg(command.pid, how) if how == signal.SIGINT else command.send_signal(how)
        command.stdout.read()  # until nobody has it open any more
    assert command.returncode == (-how if how == signal.SIGKILL else 130)
    end = time.monotonic() + 30
    while any(group_of(path) == command.pid for path in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < end, "something of it is still there"
    kept = [json.loads(line) for line in (tmp_path / "cost_model.jsonl").read_text().splitlines()]
    assert kept, "what was graded before, whichever came first"


GRADING = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from grader.authoring import verdicts
if __name__ == "__main__":
    ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), verdicts._begin).submit(input)
    print("begun", flush=True)
    input()
"""


def test_a_process_that_starts_to_grade_ends_where_who_asked_was_killed(tmp_path: Path) -> None:
    """Before it could ask the kernel to be told of that."""
    script = tmp_path / "grading.py"
    script.write_text(GRADING)
    with subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == b"begun\n"
        started = psutil.Process(asking.pid).children(recursive=True)
        asking.kill()
    assert started
    _, left = psutil.wait_procs(started, timeout=60)
    assert not left
