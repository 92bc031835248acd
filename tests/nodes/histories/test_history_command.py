"""`rankup history check` as people use it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import real_runs

from grader.nodes.histories import history

RANKUP = str(Path(sys.executable).parent / "rankup")


def check(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [RANKUP, "history", "check", *map(str, arguments)]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def event(process: str, type_: str, f: str, value: object, time: float) -> dict[str, object]:
    return {"process": process, "type": type_, "f": f, "key": "x", "value": value, "time": time}


STALE = [
    event(process, type_, f, value, time)
    for process, f, value, times in (("c1", "write", 1, (0, 1)), ("c1", "write", 2, (2, 3)), ("c2", "read", 1, (4, 5)))
    for type_, time in zip(("invoke", "ok"), times, strict=True)
]


@pytest.fixture
def stale(tmp_path: Path) -> Path:
    path = tmp_path / "stale.jsonl"
    path.write_text(history.dump(STALE))
    return path


def test_a_right_history_is_status_0_and_one_json_object(tmp_path: Path) -> None:
    path = tmp_path / "right.jsonl"
    path.write_text(history.dump(real_runs.events(random.Random(1), "kv", 40, keys=("x", "y"))))
    done = check(path, "--model", "kv", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert said.pop("seconds") >= 0
    assert said == {"valid": True, "operations": 40, "model": "kv", "reason": None}


def test_a_wrong_history_is_status_1_with_a_sentence_a_table_and_a_page(stale: Path) -> None:
    out = stale.with_suffix(".html")
    done = check(stale, "--model", "register", "--html", out)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("not linearizable  3 operations, model register, ")
    assert "The read of x by c2 at 4-5 s returned 1, but the write of 2 by c1 had ended at 3 s" in " ".join(
        done.stdout.split()
    )
    assert sum("✗" in line for line in done.stdout.splitlines()) == 2
    assert "returned 1" in done.stdout.splitlines()[-1]
    assert "</html>" in out.read_text()
    assert sorted(path.name for path in stale.parent.iterdir()) == ["stale.html", "stale.jsonl"]


def test_the_same_history_is_sequentially_consistent(stale: Path) -> None:
    done = check(stale, "--model", "register", "--consistency", "sequential")
    assert done.returncode == 0
    assert done.stdout.startswith("sequentially consistent  3 operations")


def test_unknown_is_status_1(stale: Path) -> None:
    stale.write_text(history.dump(real_runs.events(random.Random(2), "cas-register", 60)))
    done = check(stale, "--model", "cas-register", "--json", "--steps", "5")
    said = json.loads(done.stdout)
    assert (done.returncode, said["valid"]) == (1, "unknown")
    assert "No answer within 5 steps" in said["reason"]


BAD_REQUESTS = {
    "no such file": (["none.jsonl", "--model", "register"], "none.jsonl: no such file"),
    "a folder": ([".", "--model", "register"], "is a folder"),
    "no such model": (["stale.jsonl", "--model", "queue"], "no model is called 'queue'"),
    "no model": (["stale.jsonl"], "Missing option '--model'"),
    "no such consistency": (["stale.jsonl", "--model", "kv", "--consistency", "causal"], "no consistency is called"),
    "a page nowhere": (["stale.jsonl", "--model", "register", "--html", "no/a.html"], "no such folder"),
    "no history": (["empty.jsonl", "--model", "register"], "holds no operations"),
    "not JSON": (["prose.jsonl", "--model", "register"], "line 1 is not JSON"),
}


@pytest.mark.parametrize(("arguments", "words"), BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_a_bad_request_is_one_sentence_and_status_2(
    stale: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(stale.parent)
    Path("empty.jsonl").write_text("\n")
    Path("prose.jsonl").write_text("Once upon a time\n")
    done = check(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
