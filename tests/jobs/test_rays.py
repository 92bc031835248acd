"""A Ray in a box: what runs there, what is counted, and that nothing of it is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader import registry
from grader.jobs.rays import lease
from grader.jobs.rays.environments import PREFIX, variables
from grader.jobs.rays.lease import Driver, Rays, Said
from grader.lost import Lost, Unable
from grader.ranks.engines import Engines
from grader.submission import Submission

pytest.importorskip("ray")

HARNESS = """
import os
import ray
from grader.jobs.rays.rendezvous import tell

def call(f, *arguments):
    return f(*arguments)

def in_a_task(f, value):
    def fn(value):
        return tell(what="begin", value=value)
    return ray.get(ray.remote(fn).remote(value))

"""
PROGRAM = """
import os
import ray

def echo(value):
    return value

def left():
    if os.fork() == 0:
        os.setsid()
        os.execv("/bin/sleep", ["sleep", "86413"])
    return "returned"

def sleeping():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with open(f"/proc/{pid}/cmdline") as file:
            found.append("86413" in file.read())
    return sum(found)

def write():
    os.makedirs("mine/deeper")
    open("mine/deeper/file", "w").close()
    os.symlink("/usr", "mine/link")
    return ray.get(ray.remote(lambda: len(os.listdir("mine"))).remote())

def all_files():
    return [path for path, _, _ in os.walk(os.getcwd()) if "mine" in path or "worker-" in path]

def leave():
    os._exit(3)

def loop():
    while True:
        pass

def raises():
    return {}["key"]

def in_a_worker():
    @ray.remote
    def fails():
        raise ValueError("no such file")
    return ray.get(fails.remote())
"""

pytestmark = pytest.mark.heavy  # a Ray is started for them


@pytest.fixture(scope="module")
def rays(engines: Engines) -> Rays:
    return engines.lend(Rays)


@pytest.fixture
def driver(rays: Rays) -> Iterator[Driver]:
    made = Driver(rays, Submission(PROGRAM, "mine.py"), ["echo", "missing"], HARNESS)
    yield made
    made.close()


def test_a_worker_asks_at_the_gate_and_is_known_as_one(driver: Driver) -> None:
    heard: list[Said] = []

    def said(it: Said) -> None:
        heard.append(it)
        driver.answer(it, {"given": it.what["value"] + 1})

    assert driver.call("echo", "in_a_task", 41, seconds=60, said=said) == {"given": 42}
    assert [(it.role, it.what) for it in heard] == [("worker", {"what": "begin", "value": 41})]
    assert driver.missing == ["missing"]


def test_a_killed_worker_is_gone_and_its_task_runs_again(driver: Driver) -> None:
    pids: list[int] = []

    def said(it: Said) -> None:
        pids.append(it.pid)
        if len(pids) == 1:
            driver.kill(it.pid)
        else:
            driver.answer(it, "at last")

    assert driver.call("echo", "in_a_task", 1, seconds=60, said=said) == "at last"
    assert len(set(pids)) == 2
    assert driver.died[0] == pids[0]


def test_tables_tell_of_every_task_when_it_was_submitted(driver: Driver) -> None:
    before = time.time_ns()
    driver.call("echo", "in_a_task", 1, seconds=60)
    submitted = [task["times"].get("PENDING_ARGS_AVAIL") for task in driver.tasks() if task["name"] == "fn"]
    assert len(submitted) == 1
    assert before < submitted[0] < time.time_ns()


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        ("leave", "crash", "ended before it was done (status 3)"),
        ("raises", "crash", "raised KeyError: 'key' (line 38:"),
        ("in_a_worker", "crash", "ValueError: no such file"),
        pytest.param("loop", "timeout", "was not done in time with loop", marks=pytest.mark.heavy),
    ],
)
def test_what_a_call_does_wrong_is_told(driver: Driver, function: str, kind: str, words: str) -> None:
    with pytest.raises(Lost) as caught:
        driver.call(function, "call", seconds=5)
    assert caught.value.diagnosis.kind == kind
    assert words in caught.value.diagnosis.message


@pytest.mark.parametrize(
    ("source", "kind"),
    [("def f(:", "syntax_error"), ("raise ValueError('x')", "crash"), ("import os; os._exit(1)", "crash")],
)
def test_a_program_that_cannot_be_loaded_leaves_the_ray_whole(rays: Rays, source: str, kind: str) -> None:
    with pytest.raises(Lost) as caught:
        Driver(rays, Submission(source, "mine.py"), ["f"], HARNESS)
    assert caught.value.diagnosis.kind == kind
    after = Driver(rays, Submission(PROGRAM, "mine.py"), ["echo"], HARNESS)
    assert after.call("echo", "call", 7, seconds=60) == 7
    after.close()


def test_what_a_driver_left_behind_is_gone_with_it(rays: Rays) -> None:
    one = Driver(rays, Submission(PROGRAM, "mine.py"), ["left"], HARNESS)
    assert one.call("left", "call", seconds=60) == "returned"
    one.close()
    two = Driver(rays, Submission(PROGRAM, "mine.py"), ["sleeping"], HARNESS)
    assert two.call("sleeping", "call", seconds=60) == 0
    two.close()


def test_without_ray_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch, engines: Engines) -> None:
    monkeypatch.setattr(lease.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unable, match="Ray is not installed"):
        Rays(engines.warm).take()


@pytest.mark.heavy
def test_gradings_of_strangers_get_a_ray_each(engines: Engines) -> None:
    rays = Rays(engines.warm, shared=False)
    first = rays.take()
    rays.give_back(whole=True)
    assert rays.take() is not first
    rays.give_back(whole=True)


def test_a_workers_command_line_says_its_environment() -> None:
    assert variables(["x.py", PREFIX + '{"env_vars": {"A": "1"}}', "--more"]) == {"A": "1"}
    assert variables(["x.py"]) == {}


@pytest.mark.heavy
def test_nothing_of_ray_is_left_when_the_engines_are_closed() -> None:
    with Engines() as made:
        one = Driver(made.lend(Rays), Submission(PROGRAM, "mine.py"), ["echo"], HARNESS)
        one.call("echo", "in_a_task", 1, seconds=60)
        mine = os.getpid()
    left = [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if _environment_says(path.parent, mine)]
    assert left == []


def _environment_says(folder: Path, pid: int) -> bool:
    """Whether a process is a child of this one that runs something of Ray's."""
    try:
        parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == pid and b"ray" in (folder / "cmdline").read_bytes()
    except OSError:
        return False


def test_no_file_of_a_grading_is_there_for_the_next_one(rays: Rays) -> None:
    for function, expected in (("write", 2), ("all_files", [])):
        driver = Driver(rays, Submission(PROGRAM, "mine.py"), [function], HARNESS)
        try:
            assert driver.call(function, "call", seconds=60) == expected
        finally:
            driver.close()


FORKED = """
import importlib, os, sys
import ray
from grader.jobs.rays import ids
ids.leave_the_generator_alone()
for name in sys.argv[1:]:
    importlib.import_module(name)
for _ in range(2):
    if os.fork() == 0:
        print(ray.WorkerID.from_random().hex(), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.heavy
def test_forked_workers_draw_ids_of_their_own() -> None:
    names = [
        name
        for each in registry.names()
        for name in getattr(registry.find(each).world, "imported", ())
        if "ray" in name
    ]
    command = [sys.executable, "-c", FORKED, *names]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert len({*told}) == 2, "importing these has Ray draw an id, after which all forks draw the same ones"
