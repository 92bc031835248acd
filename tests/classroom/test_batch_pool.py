"""A pool of worker processes: who dies, hangs or talks nonsense is replaced, and nobody is left behind."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from often import often

from grader.classroom import lines
from grader.classroom.batch.pool import Done, Job, LocalPool

# A worker that does what the source of its job says. Its first child ends when the worker does; a later one does not.
WORKER = """
import json, os, pathlib, signal, subprocess, sys
folder = pathlib.Path(sys.argv[1])
def start(*command):
    child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    (folder / f"{os.getpid()}.{child.pid}.pid").touch()
    return child
child = start("cat")
for line in sys.stdin:
    job = json.loads(line)
    what, _, student = job["cells"][0].rpartition(" ")
    with open(folder / student, "a") as tries:
        tries.write("x")
    first = (folder / student).stat().st_size == 1
    if what == "dies" or what == "dies once" and first:
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "fails":
        sys.exit("Traceback ...\\nMemoryError: no memory")
    if what == "hangs" or what == "hangs once" and first:
        start("sleep", "1000")
        signal.pause()
    if what == "talks":
        print("hello")
    elif what == "half":
        print('{"verdict": {}, "extra": []}')
    elif what == "cannot":
        print(json.dumps({"error": "the box failed"}))
    else:
        verdict = {"exercise": "e", "checks": [], "seed": job["seed"], "seconds": 1.0, "engines": []}
        print(json.dumps({"verdict": verdict, "extra": []}))
    sys.stdout.flush()
"""


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalPool]:
    """Two such workers; their children must be gone at the end."""
    monkeypatch.setattr(lines, "PATIENCE", 0.2)
    with contextlib.closing(LocalPool(2, [sys.executable, "-S", "-c", WORKER, str(tmp_path)])) as made:
        yield made
    psutil.wait_procs(alive(tmp_path), timeout=10)
    assert not alive(tmp_path)


def alive(folder: Path) -> list[psutil.Process]:
    """The workers, and their children, that there still are."""
    found = [int(pid) for path in folder.glob("*.pid") for pid in path.stem.split(".")]
    there = []
    for pid in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                there.append(process)
    return there


def job(student: str, source: str, deadline: float = 60.0) -> Job:
    return Job(student, "notebook", "exercise", f"{source} {student}", 5, deadline)


def outcome(done: Done) -> str:
    return done.problem or f"seed {done.verdict.seed}" if done.verdict else done.problem


# what the worker does, what comes of it, and how often it was tried
ENDINGS = {
    "grades": ("grades", "seed 5", 1),
    "dies": ("dies", "the worker was ended by SIGKILL", 2),
    "dies once": ("dies once", "seed 5", 2),
    "fails": ("fails", "the worker ended: MemoryError: no memory", 2),
    "talks": ("talks", "the worker's answer could not be read", 2),
    "half an answer": ("half", "the worker's answer could not be read", 2),
    "cannot": ("cannot", "the box failed", 2),
}


@pytest.mark.parametrize(("what", "expected", "tries"), ENDINGS.values(), ids=ENDINGS.keys())
def test_every_job_has_one_result(pool: LocalPool, tmp_path: Path, what: str, expected: str, tries: int) -> None:
    jobs = [job("before", "grades"), job("ada", what), job("after", "grades"), job("last", "grades")]
    pool.start(len(jobs))
    done = {each.job.student: outcome(each) for each in pool.results(jobs)}
    assert done == {"before": "seed 5", "ada": expected, "after": "seed 5", "last": "seed 5"}
    assert len((tmp_path / "ada").read_text()) == tries


HANGS = {"always": ("hangs", "the grading took more than 0.5 seconds"), "once": ("hangs once", "seed 5")}


@pytest.mark.parametrize(("what", "expected"), often(HANGS, "always"))
def test_a_worker_that_hangs_is_replaced(pool: LocalPool, what: str, expected: str) -> None:
    [first] = pool.results([job("warm", "grades")])
    deadline = 0.5 if what == "hangs" else 3.0
    [done] = pool.results([job("ada", what, deadline)])
    assert (outcome(first), outcome(done)) == ("seed 5", expected)


def test_nothing_to_do(pool: LocalPool) -> None:
    assert list(pool.results([])) == []


def test_closing_while_workers_work_ends_them_at_once(pool: LocalPool, tmp_path: Path) -> None:
    results = pool.results([job("ada", "hangs"), job("bo", "hangs"), job("cleo", "grades")])
    begun = threading.Event()

    def watch() -> None:
        while not all((tmp_path / name).exists() for name in ("ada", "bo")):
            pass
        begun.set()

    threading.Thread(target=watch, daemon=True).start()
    assert begun.wait(60)
    pool.close()
    assert not alive(tmp_path)
    assert [each.verdict for each in results] == [None, None, None]
    pool.close()


def test_a_worker_that_cannot_be_started() -> None:
    with contextlib.closing(LocalPool(1, ["/no/such/program"])) as pool:
        pool.start(1)
        [done] = pool.results([job("ada", "grades")])
    assert done.problem == "no worker can be started (No such file or directory)"


def test_a_job_survives_the_way_to_a_worker() -> None:
    sent = job("o'brien\n\udcff", "def f():\n    '\x00'")
    assert Job.from_json(sent.to_json()) == sent
    assert "\n" not in sent.to_json()
