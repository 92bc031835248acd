"""Jobs: a driver and workers in real processes, of which tasks, deaths and standing still are decided by a seed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from grader.jobs import start
from grader.jobs.cluster import Cluster, Done, Job
from grader.lost import Lost
from grader.ranks.engines import Engines
from grader.submission import Submission

COUNT = ("words", "total", None)
TEXT = ["a b a", "b c", "c c d", "a"]
HEAD = """
import os, sys

def count(map_fn, item):
    return list(map_fn(item))

def same(value):
    return value

def salt():
    return hash("word"), os.getpid()

def loop():
    while True:
        pass

def leave():
    os._exit(3)

def broken():
    raise ValueError("no such word")

def open_file():
    return sys.stdin
"""
PLAIN = """
def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    open = {workers.submit(count, map_fn, item): item for item in inputs}
    groups = {}
    while open:
        event = workers.wait_any(20)
        if event is None:
            for item in list(open.values()):
                open[workers.submit(count, map_fn, item)] = item
            continue
        if event.task not in open:
            continue
        item = open.pop(event.task)
        if event.kind == "died":
            open[workers.submit(count, map_fn, item)] = item
            continue
        open = {task: other for task, other in open.items() if other != item}
        for key, value in event.value:
            groups[key] = groups.get(key, 0) + value
    return groups
"""


def body(text: str) -> str:
    """A run() of these lines."""
    head = "def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):\n"
    return head + "\n".join(f"    {line}" for line in text.strip("\n").splitlines())


def done(engines: Engines, run: str, job: Job | None = None) -> Done:
    job = job or Job(COUNT, TEXT, 2)
    return Cluster(engines.warm, Submission(HEAD + run, "mine.py"), "run", job).run()


def trouble(engines: Engines, run: str, job: Job | None = None) -> tuple[str, str]:
    """The kind and the words of what ends a job."""
    with pytest.raises(Lost) as caught:
        done(engines, run, job)
    assert caught.value.picture is not None, "there is a picture of every end"
    return caught.value.diagnosis.kind, caught.value.diagnosis.message


def told(tasks: Done) -> list[tuple[object, ...]]:
    return [(t.function, t.worker, t.begin, t.end, t.became, t.given, t.returned) for t in tasks.tasks]


RIGHT = {"a": 3, "b": 2, "c": 3, "d": 1}


def test_a_job_runs_on_its_workers(engines: Engines) -> None:
    job = done(engines, PLAIN)
    assert dict(job.items or ()) == RIGHT
    assert [task.became for task in job.tasks] == ["done"] * 4
    assert {task.worker for task in job.tasks} == {1, 2}
    assert job.different == 4
    assert job.returned_bytes == sum(task.returned for task in job.tasks) > 0


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_seed_makes_the_same_tasks(engines: Engines, seed: int) -> None:
    job = Job(COUNT, TEXT, 3, deaths=(2,), seed=seed)
    assert told(done(engines, PLAIN, job)) == told(done(engines, PLAIN, job))


def test_another_seed_makes_others(engines: Engines) -> None:
    one, other = (told(done(engines, PLAIN, Job(COUNT, TEXT, 3, seed=seed))) for seed in (0, 1))
    assert one != other


def test_a_worker_dies_in_the_task_that_was_named(engines: Engines) -> None:
    job = done(engines, PLAIN, Job(COUNT, TEXT, 2, deaths=(2,)))
    assert dict(job.items or ()) == RIGHT
    assert [task.number for task in job.tasks if task.became == "died"] == [1]
    killed = job.tasks[1].worker
    assert all(task.worker != killed for task in job.tasks[2:]), "nobody begins on a worker that is gone"
    assert list(job.chart.gone) == [f"w{killed}"]


def test_a_task_that_is_submitted_again_is_no_other_one(engines: Engines) -> None:
    job = done(engines, PLAIN, Job(COUNT, TEXT, 3, deaths=(2, 4)))
    assert [task.number for task in job.tasks if task.became == "died"] == [1, 3]
    assert (len(job.tasks), job.different) == (6, 4)


def test_a_task_that_is_named_twice_is_lost_twice(engines: Engines) -> None:
    job = done(engines, PLAIN, Job(COUNT, TEXT, 3, deaths=(2, 2)))
    assert dict(job.items or ()) == RIGHT
    assert ([task.became for task in job.tasks].count("died"), job.different) == (2, 4)


def test_a_worker_stands_still_for_good(engines: Engines) -> None:
    job = done(engines, PLAIN, Job(COUNT, TEXT, 2, still=(1,)))
    assert dict(job.items or ()) == RIGHT
    assert (job.tasks[0].became, job.tasks[0].end) == ("running", None)
    assert [task.worker for task in job.tasks[1:]] == [3 - (job.tasks[0].worker or 0)] * 4


@pytest.mark.parametrize(("apart", "different"), [(True, 3), (False, 1)], ids=["seeds", "one seed"])
def test_workers_hash_as_the_job_says(engines: Engines, apart: bool, different: int) -> None:
    run = body("""
for _ in range(3):
    workers.submit(salt)
return {str(n): workers.wait_any().value for n in range(3)}
""")
    items = done(engines, run, Job(COUNT, (), 3, hash_seeds=apart)).items or []
    assert len({hashed for _, (hashed, _) in items}) == different
    assert len({pid for _, (_, pid) in items}) == 3


VALUES = {
    "what a task raised": ("workers.submit(broken)", ["failed", "ValueError: no such word"]),
    "a value that cannot be sent": ("workers.submit(open_file)", ["failed", "cannot pickle"]),
    "a process that ends itself": ("workers.submit(leave)", ["died", "None"]),
    "a tuple": ("workers.submit(same, (1, 2))", ["done", "(1, 2)"]),
}


@pytest.mark.parametrize(("submit", "event"), VALUES.values(), ids=VALUES)
def test_an_event_says_what_became_of_a_task(engines: Engines, submit: str, event: list[str]) -> None:
    run = body(f"{submit}\nevent = workers.wait_any()\nreturn {{'kind': event.kind, 'value': str(event.value)}}")
    items = dict(done(engines, run).items or ())
    assert items["kind"] == event[0]
    assert event[1] in items["value"]


RESULTS = {
    "a dict": ("{'a': 1}", "dict", [("a", 1)]),
    "a kind of dict": ("__import__('collections').Counter('aa')", "dict", [("a", 2)]),
    "tuples as keys": ("{('a', 1): 2}", "dict", [(("a", 1), 2)]),
    "nothing": ("None", "NoneType", None),
    "a list": ("[('a', 1)]", "list", None),
}


@pytest.mark.parametrize(("value", "name", "items"), RESULTS.values(), ids=RESULTS)
def test_a_result_is_a_dict(engines: Engines, value: str, name: str, items: object) -> None:
    job = done(engines, body(f"return {value}"), Job(COUNT, TEXT, 1))
    assert (job.type_name, job.items) == (name, items)


def test_a_driver_may_poll(engines: Engines) -> None:
    """Virtual time passes only in waits, but who never waits for long must not wait for ever."""
    lines = "workers.submit(same, 1)\nwhile not (event := workers.wait_any(0)): pass\nreturn {'a': event.value}"
    assert done(engines, body(lines), Job(COUNT, TEXT, 1)).items == [("a", 1)]


FORGE = "from grader.sandbox import frames\nos.write(3, frames.pack_message({}, b''))\nworkers.wait_any()"
ENDS = {
    "an error": ("return {}['x']", "crash", "KeyError"),
    "map_fn in the driver": ("return dict(map_fn('a b'))", "crash", "submit a task that calls it"),
    "reduce_fn in the driver": ("return {'a': reduce_fn('a', [1])}", "crash", "submit a task that calls it"),
    "a lambda": ("workers.submit(lambda: 1)", "crash", "top-level function"),
    "arguments that cannot be sent": ("workers.submit(same, (n for n in ()))", "crash", "cannot pickle"),
    "nothing to wait for": ("workers.wait_any()", "deadlock", "nothing is queued or running"),
    "a task that failed": (
        "workers.submit(same)\nworkers.wait_any()\nworkers.wait_any()", "deadlock", "Task 0 (same) raised TypeError",
    ),
    "no end of short waits": ("while True: workers.wait_any(0)", "deadlock", "waits forever"),
    "a wait of less than nothing": ("workers.wait_any(-1)", "crash", "None or a number of seconds that is 0 or more"),
    "no end of questions": ("while len(workers): pass", "deadlock", "waits forever"),
    "no end of questions beside a task": (
        "workers.submit(same, 1)\nwhile len(workers): pass", "deadlock", "for the number of workers",
    ),
    "no end of tasks": ("while True: workers.submit(same, 1)", "timeout", "more than 2,000 tasks"),
    "huge arguments": ("while True: workers.submit(same, bytes(2**25))", "too_many_bytes", "arguments of all tasks"),
    "an exit": ("os._exit(3)", "crash", "The driver ended with exit status 3"),
    "all workers gone": ("[workers.submit(leave) for _ in range(3)]\nwhile True: workers.wait_any()",
                         "deadlock", "all workers have died"),
    "much printing": ("print('x' * 2**22)\nworkers.wait_any()", "sandbox_violation", "Print less"),
    "bytes that are no frame": ("os.write(3, b'x' * 99)\nworkers.wait_any()", "sandbox_violation", "cannot read"),
    "an unknown event": (FORGE.format("{'event': 'won'}"), "sandbox_violation", "cannot read"),
    "keys that are none": (FORGE.format("{'event': 'returned', 'type': 'dict', 'items': [[{'$dict': {}}, 1]]}"),
                           "sandbox_violation", "cannot read"),
    "a wait that is none": (FORGE.format("{'event': 'wait', 'timeout': [], 'line': 1}"),
                            "sandbox_violation", "cannot read"),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "kind", "words"), ENDS.values(), ids=ENDS)
def test_a_job_that_cannot_end_well_says_why(engines: Engines, lines: str, kind: str, words: str) -> None:
    found, message = trouble(engines, body(lines))
    assert (found, words in message) == (kind, True), message


def test_a_wait_without_end_is_one_without_a_timeout(engines: Engines) -> None:
    assert trouble(engines, body("workers.wait_any(float('inf'))"))[0] == "deadlock"


PROGRAMS = {
    "no Python": ("def run(:", "syntax_error", "not valid Python"),
    "no function": ("def start(): pass", "missing_function", "mine.py does not define run"),
    "an error while it is loaded": ("1 / 0", "crash", "when it was loaded"),
    "an exit while it is loaded": ("os._exit(4)", "crash", "exit status 4"),
}


@pytest.mark.parametrize(("program", "kind", "words"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_that_cannot_be_run_says_why(engines: Engines, program: str, kind: str, words: str) -> None:
    found, message = trouble(engines, program)
    assert (found, words in message) == (kind, True), message


LOOPS = {
    "in a task": ("workers.submit(loop)\nworkers.wait_any()", "Task 0 (loop) did not end on w1"),
    "in run()": ("loop()", "Look for a loop or a call that never ends"),
}


@pytest.mark.parametrize(("lines", "words"), LOOPS.values(), ids=LOOPS)
def test_a_loop_without_end_is_ended(engines: Engines, lines: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.jobs.cluster.CPU_SECONDS", 0.6)
    found, message = trouble(engines, body(lines))
    assert (found, words in message) == ("timeout", True), message


def test_an_answer_without_a_value_is_none(engines: Engines) -> None:
    forge = "def forge():\n    from grader.sandbox import frames\n"
    forge += "    os.write(3, frames.pack_message({'event': 'done'}, b''))\n    loop()\n"
    found, message = trouble(engines, forge + body("workers.submit(forge)\nworkers.wait_any()"))
    assert (found, "cannot read" in message) == ("sandbox_violation", True), message


def test_a_worker_that_floods_is_no_worker(engines: Engines) -> None:
    flood = "def flood():\n    from grader.sandbox import frames\n    while True:\n"
    flood += "        os.write(3, frames.pack_message({'event': 'done'}, b''))\n"
    run = "workers.submit(flood)\nworkers.submit(loop)\nworkers.wait_any()\nworkers.wait_any()"
    found, message = trouble(engines, flood + body(run))
    assert (found, "cannot read" in message) == ("sandbox_violation", True), message


def test_what_is_started_anew_in_a_box_finds_all_that_it_imports() -> None:
    """Python's side of Spark's tasks, and workers: they cannot list the package's folder."""
    code = f"""
import runpy, sys
sys.path = [path for path in sys.path if "site-packages" in path or "lib/python" in path]
sys.meta_path.insert(0, runpy.run_path({start.__file__!r}, run_name="start")["Finder"])
from grader.jobs import host
from grader.jobs.sparks import confine
"""
    subprocess.run([sys.executable, "-s", "-P", "-c", code], check=True)
