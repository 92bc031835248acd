"""`rankup nodes run` as people use it: exit status, one sentence for bad input, what it prints and writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader import cli
from grader.submission import BadRequest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
NODE = ("--", sys.executable, "-S")
ECHO = ("--workload=echo", "--nodes=2", "--time-limit=0.3", "--rate=100", "--seed=7")


def rankup(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from grader.cli import main; main()", "nodes", "run", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"},
        cwd=folder,
        timeout=60,
    )


BAD_REQUESTS = {
    "no such workload": (["--workload=bank"], "no workload is called 'bank'; choose from echo"),
    "no nodes": (["--nodes=0"], "--nodes must be from 1"),
    "too many nodes": (["--nodes=1000"], "--nodes must be from 1 to 100"),
    "no such fault": (["--nemesis=earthquake"], "no fault is called 'earthquake'; choose from partition"),
    "a fault that needs more nodes": (["--nemesis=pause,ring"], "ring needs at least 4 nodes, and --nodes is 2"),
    "a partition of one": (["--nodes=1", "--nemesis=partition"], "partition needs at least 2 nodes"),
    "no such topology": (["--topology=star"], "no topology is called 'star'"),
    "no such level": (
        ["--workload=txn-list-append", "--isolation=acid"],
        "no isolation level is called 'acid'; choose",
    ),
    "a level for echo": (
        ["--isolation=serializable"],
        "--isolation is for txn-list-append and txn-rw-register, not for",
    ),
    "no keys": (["--workload=kafka", "--key-count=0"], "--key-count must be from 1 to 1,000, not 0"),
    "no operations": (["--workload=txn-rw-register", "--max-txn-length=0"], "--max-txn-length must be from 1"),
    "no writes": (["--workload=kafka", "--max-writes-per-key=0"], "--max-writes-per-key must be from 1"),
    "no probability": (["--drop=1"], "--drop must be a probability below 1"),
    "a negative rate": (["--rate=-1"], "--rate"),
    "a time that is none": (["--time-limit=nan"], "--time-limit must be a finite number of seconds above 0"),
    "endless": (["--time-limit=inf"], "--time-limit must be a finite number of seconds above 0"),
    "a latency that is none": (["--latency=inf"], "--latency"),
    "a page nowhere": (["--html=no/such/a.html"], "no such folder"),
    "a history that is a folder": (["--history=."], "is a folder"),
    "no command": ([], "give the command that each node runs, after --"),
    "a command that is not there": (["--", "no-such-command"], "no-such-command: no such command"),
    "a file that is not there": (["--", "./nowhere.py"], "./nowhere.py: no such file"),
    "a file that wants ./": (["--", "plain.py"], "did you mean ./plain.py?"),
    "a folder": (["--", "./folder"], "is a folder"),
    "not executable": (["--", "./plain.py"], "chmod +x ./plain.py"),
    "no interpreter": (["--", "./odd.py"], "cannot be started: ./odd.py: Exec format error"),
}


@pytest.mark.parametrize(("words", "sentence"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_a_bad_request_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain.py").write_text("")
    Path("folder").mkdir()
    Path("odd.py").write_text("print(1)")
    Path("odd.py").chmod(0o755)
    command = [] if "--" in words or "give the command" in sentence else [*NODE, "echo.py"]
    with pytest.raises(BadRequest) as refused:
        cli.app(["nodes", "run", *ECHO, *words, *command], standalone_mode=False)
    assert sentence in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("words", [["--nodes=three"], ["--nodes=0"], ["--nodes=2", "--", "./nowhere.py"]], ids=str)
def test_a_bad_request_is_status_2(words: list[str]) -> None:
    done = rankup("--workload=echo", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("rankup: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_right_program_is_status_0_and_its_figures_are_printed() -> None:
    done = rankup(*ECHO, *NODE, str(PROGRAMS / "echo.py"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✓ right  echo on 2 nodes, seed 7" in done.stdout
    for word in ("requests", "answered", "100.0%", "latency", "median", "messages"):
        assert word in done.stdout


def test_a_wrong_program_is_status_1_with_the_sentence_and_its_stderr() -> None:
    done = rankup(*ECHO, *NODE, str(PROGRAMS / "misbehave.py"), "crash")
    assert done.returncode == 1
    assert "✗ wrong" in done.stdout
    assert "ended by itself with status 1" in done.stdout
    assert "wrote to stderr" in done.stdout
    assert "Traceback" in done.stdout


def test_options_of_the_command_are_its_own() -> None:
    done = rankup(*ECHO, sys.executable, "-S", str(PROGRAMS / "echo.py"), "--nodes", "9", "--help")
    assert done.returncode == 0, done.stderr
    assert "on 2 nodes" in done.stdout


def test_json_a_page_and_a_history_are_whole(tmp_path: Path) -> None:
    page, history = tmp_path / "a.html", tmp_path / "a.jsonl"
    words = ("--json", f"--html={page}", f"--history={history}", "--nemesis=pause", "--nemesis-interval=0.1")
    done = rankup(*ECHO, *words, *NODE, str(PROGRAMS / "echo.py"))
    told = json.loads(done.stdout)
    assert told["valid"] is True
    assert told["seed"] == 7
    assert told["workload"] == "echo"
    assert told["operations"] == told["by_function"]["echo"]["ok"] > 5
    assert told["faults"][0]["label"] == "paused"
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    assert len(lines) == 2 * told["operations"]
    assert {"process", "type", "f", "key", "value", "time", "node"} <= lines[0].keys()
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert text.count("<circle") >= told["operations"]
    assert "paused" in text
    assert sorted(tmp_path.iterdir()) == [page, history]


def test_a_page_escapes_what_a_program_prints(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    script = "import sys; sys.stdin.readline(); print('<script>alert(1)</script>', file=sys.stderr); print('<b>')"
    done = rankup(*ECHO, f"--html={page}", *NODE, "-c", script)
    assert done.returncode == 1
    text = page.read_text()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "&lt;b&gt;" in text
