"""A pool on a cluster, without one: every job has one result, and what is wrong is one sentence."""

from __future__ import annotations

import importlib.util
import socket
import sys
from contextlib import closing

import pytest

from grader.classroom.batch.cluster import ClusterPool, open_pool, pool
from grader.classroom.batch.pool import Done, Job
from grader.submission import BadRequest

# Stands in for the driver: its argument is what it says first, and the source of a job what it does with it.
DRIVER = """
import json, sys
print(sys.argv[1], flush=True)
verdict = {"verdict": {"exercise": "e", "checks": [], "seed": 5, "seconds": 1.0, "engines": []}, "extra": []}
for line in sys.stdin:
    for number, job in enumerate(json.loads(line).get("jobs", ())):
        what = json.loads(job)["source"]
        if what == "dies":
            sys.exit("Log\\n[2026-11-21 16:51:58,677 E 1 2] rpc_client.h:204: Failed to connect within 60 s. Or so.")
        said = {"number": number, "seconds": 1.5, "worker": "worker 1"}
        if what == "cannot":
            said["problem"] = "the box failed"
        else:
            said |= {"verdict": {}} if what == "half" else verdict
        for _ in range(2 if what == "twice" else 1):
            print(json.dumps({"about": "one worker less"}), json.dumps(said), sep="\\n", flush=True)
"""
HELLO = '{"about": "2 workers", "remarks": ["one is gone"]}'


def fake(said: str) -> ClusterPool:
    return ClusterPool([sys.executable, "-S", "-c", DRIVER, said])


def job(student: str, source: str) -> Job:
    return Job(student, "notebook", "exercise", source, 5, 60.0)


def outcome(done: Done) -> str:
    return f"seed {done.verdict.seed} by {done.worker}" if done.verdict else done.problem


GOOD = "seed 5 by worker 1"
LOST = "the Ray cluster was lost (Failed to connect within 60 s)"
ENDINGS = {
    "all is well": (["grades", "grades"], [GOOD, GOOD]),
    "no verdict": (["cannot", "grades"], ["the box failed", GOOD]),
    "half a verdict": (["half", "grades"], ["the worker's answer could not be read", GOOD]),
    "the same said twice": (["twice", "grades"], [GOOD, GOOD]),
    "the cluster is lost": (["grades", "dies", "grades"], [GOOD, LOST, LOST]),
    "nothing to do": ([], []),
}


@pytest.mark.parametrize(("sources", "expected"), ENDINGS.values(), ids=ENDINGS.keys())
def test_every_job_has_one_result(sources: list[str], expected: list[str]) -> None:
    with closing(fake(HELLO)) as made:
        made.connect("here")
        assert (made.about, made.remarks) == ("2 workers", ("one is gone",))
        made.start(len(sources))
        assert [outcome(done) for done in made.results([job("ada", source) for source in sources])] == expected
        assert made.about == ("one worker less" if sources else "2 workers")
    made.close()


def test_closing_while_jobs_are_out() -> None:
    made = fake(HELLO)
    made.connect("here")
    results = made.results([job("ada", "grades"), job("bo", "grades")])
    made.close()
    assert [done.problem for done in results] == ["the run was stopped"] * 2


REFUSALS = {
    "by the driver": (['print(\'{"refused": "no machine is free"}\')'], "no machine is free"),
    "it fails": (["import sys; sys.exit('Traceback\\nMemoryError: none. Really')"], "at here (MemoryError: none)"),
    "it is killed": (["import os; os.kill(os.getpid(), 9)"], "at here (status -9)"),
    "it hangs": (["input()"], "did not answer within 0 seconds"),
}


@pytest.mark.parametrize(("command", "said"), REFUSALS.values(), ids=REFUSALS.keys())
def test_no_connection_is_one_sentence(monkeypatch: pytest.MonkeyPatch, command: list[str], said: str) -> None:
    if said.endswith("0 seconds"):
        monkeypatch.setattr(pool, "CONNECT_SECONDS", 0.0)
    with closing(ClusterPool([sys.executable, "-S", "-c", *command])) as made, pytest.raises(BadRequest) as raised:
        made.connect("here")
    assert said in str(raised.value)


ADDRESSES = {
    "no port": ("machine", "'machine' is not the address of a Ray cluster: write it as HOST:PORT"),
    "Ray's own local": ("local", "'local' is not the address"),
    "no such port": ("machine:65536", "'machine:65536' is not the address"),
    "a client server": ("ray://machine:10001", "is the address of a Ray client server"),
    "nobody there": ("CLOSED", "no Ray cluster answers at 127.0.0.1:"),
}


@pytest.mark.parametrize("by_environment", [False, True])
@pytest.mark.parametrize(("address", "said"), ADDRESSES.values(), ids=ADDRESSES.keys())
def test_a_bad_address(monkeypatch: pytest.MonkeyPatch, address: str, said: str, by_environment: bool) -> None:
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))  # nobody listens to it
        address = address.replace("CLOSED", f"127.0.0.1:{held.getsockname()[1]}")
        monkeypatch.setattr(importlib.util, "find_spec", bool)  # Ray may be here or not
        monkeypatch.setenv("RAY_ADDRESS", address if by_environment else "another:1")
        with pytest.raises(BadRequest) as raised:
            open_pool("" if by_environment else address)
    assert said in str(raised.value)


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BadRequest, match=r"pip install 'rankup\[cluster\]'"):
        open_pool()
