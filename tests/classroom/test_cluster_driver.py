"""The process that speaks with a cluster, without one: which machines it uses, and who grades what."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from grader.classroom.batch.pool import Job

pytest.importorskip("ray")
from ray.exceptions import ActorDiedError, ActorUnavailableError

from grader.classroom.batch.cluster import driver, machines
from grader.classroom.batch.cluster.machines import Machine, Refused

MINE = "rankup 1 (abc), torch 2"
A, B = (Machine(name, f"host-{name}", 2, MINE, "full", "", 4) for name in "ab")
NONE = replace(B, mode="none", why="no namespaces")
SILENT = Machine("c", "host-c", 2)
FOUND = {
    "all good": ([A, B], False, "ab", []),
    "one does not isolate": (
        [A, NONE],
        False,
        "a",
        ["host-b is not used: submissions cannot be isolated there (no n"],
    ),
    "one does not isolate, and is trusted": (
        [A, NONE],
        True,
        "ab",
        ["Not isolated on host-b (no namespaces): grade only"],
    ),
    "one does not answer": ([A, SILENT], False, "a", ["host-c is not used: it did not answer"]),
}


@pytest.mark.parametrize(("found", "trust", "expected", "said"), FOUND.values(), ids=FOUND.keys())
def test_which_machines_may_grade(found: list[Machine], trust: bool, expected: str, said: list[str]) -> None:
    good, remarks = machines.usable(found, MINE, trust)
    assert "".join(machine.node for machine in good) == expected
    assert all(remark.startswith(start) for remark, start in zip(remarks, said, strict=True))


OTHER = "host-b has rankup 1 (xyz), torch 2, this machine has rankup 1 (abc), torch 2: install the same"
UNUSABLE = {
    "none isolates": (
        [NONE],
        False,
        "no machine of the Ray cluster can isolate submissions (host-b: no namespaces)",
    ),
    "none answers": ([SILENT], True, "has no processor to grade with: host-c is not used: it did not answer"),
    "there is none": ([], True, "the Ray cluster has no processor to grade with"),
    "one has another version": ([A, replace(B, version="rankup 1 (xyz), torch 2")], True, OTHER),
}


@pytest.mark.parametrize(("found", "trust", "said"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_no_machine_may_grade(found: list[Machine], trust: bool, said: str) -> None:
    with pytest.raises(Refused) as raised:
        machines.usable(found, MINE, trust)
    assert said in str(raised.value)


REASONS = {
    "no token": (
        "auto",
        RuntimeError("ray.exceptions.AuthenticationError: RPC error"),
        "the Ray cluster on this machine needs",
    ),
    "not on one of its machines": (
        "a:1",
        RuntimeError("No node info found"),
        "run `ray start --address=a:1 --num-cpus=0`",
    ),
    "no cluster": ("auto", ConnectionError("no instance"), "no Ray cluster runs on this machine: start one with"),
    "anything": (
        "a:1",
        RuntimeError("Version\n mismatch. "),
        "the Ray cluster at a:1 (RuntimeError: Version mismatch)",
    ),
}


@pytest.mark.parametrize(("address", "error", "said"), REASONS.values(), ids=REASONS.keys())
def test_what_keeps_this_machine_from_a_cluster(
    monkeypatch: pytest.MonkeyPatch, address: str, error: Exception, said: str
) -> None:
    def init(**_: Any) -> None:
        raise error

    monkeypatch.setattr(machines.ray, "init", init)
    with pytest.raises(Refused) as raised:
        machines.connect(address)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("most", "expected"), [(None, "abaaa"), (3, "aba"), (1, "a"), (9, "abaaa")], ids=["all", "three", "one", "more"]
)
def test_slots_are_spread_over_the_machines(most: int | None, expected: str) -> None:
    found = [replace(A, processors=4, cores=8), replace(B, processors=4, cores=1)]
    assert "".join(place.machine.node for place in driver.places(found, most)) == expected


@dataclass(eq=False)
class Asked:
    """What stands for Ray's reference to an answer."""

    what: str
    node: str


class FakeActor:
    """A slot on a node."""

    def __init__(self, node: str) -> None:
        self.get_ready = SimpleNamespace(remote=lambda: Asked("", node))
        self.grade = SimpleNamespace(remote=lambda line: Asked(json.loads(line)["source"], node))


class FakeRay:
    """What the driver needs of Ray. A job's source says what becomes of it, and on which nodes.

    The nodes in `gone` are lost, those in `busy` have no processor free.
    """

    def __init__(self, gone: str = "", busy: str = "") -> None:
        self.gone, self.busy = gone, busy
        self.graded: list[str] = []

    def remote(self, **_: Any) -> Any:
        def options(scheduling_strategy: Any) -> Any:
            return SimpleNamespace(remote=lambda _: FakeActor(scheduling_strategy.node_id))

        return lambda _: SimpleNamespace(options=options)

    def wait(self, asked: list[Asked], **_: Any) -> tuple[list[Asked], list[Asked]]:
        ready = [each for each in asked if each.node not in self.busy and each.what != "hangs"]
        return ready[:1], []

    def get(self, asked: Asked, **_: Any) -> str | None:
        if asked.node in self.gone:
            raise ActorDiedError
        if not asked.what:
            return None
        what, _, where = asked.what.partition(" on ")
        self.graded.append(asked.node)
        if what == "dies":
            raise ActorUnavailableError("", None)
        fails = what == "fails" and asked.node in (where or "ab")
        return json.dumps({"problem": "no room", "seconds": 1} if fails else {"verdict": {}, "seconds": 1})

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": node, "Alive": node not in self.gone} for node in "ab"]

    def kill(self, _: Any) -> None:
        pass


NONE_FREE = "no processor of the Ray cluster was free for 0 seconds"
# what is the case, sources, what came of them, how often there was an answer
WORK: dict[str, tuple[dict[str, str], list[str], list[str], int]] = {
    "all is well": ({}, ["fine"] * 5, ["fine"] * 5, 5),
    "a job fails everywhere": ({}, ["fails", "fine", "fine"], ["no room", "fine", "fine"], 4),
    "one machine fails them all": ({}, ["fails on a"] * 4, ["fine"] * 4, 8),
    "only one machine, and it fails": ({"busy": "b"}, ["fails on a"] * 2, ["no room"] * 2, 4),
    "a job ends its slots": ({}, ["dies", "fine", "fine"], ["its worker was lost 3 times", "fine", "fine"], 5),
    "a job is never answered": ({}, ["hangs", "fine"], ["its worker was lost 3 times", "fine"], 1),
    "a machine is lost": ({"gone": "a"}, ["fine"] * 5, ["fine"] * 5, 5),
    "all are lost": ({"gone": "ab"}, ["fine"] * 3, ["no machine of the Ray cluster is left"] * 3, 0),
    "one is lost, one is busy": ({"gone": "a", "busy": "b"}, ["fine"] * 2, [NONE_FREE] * 2, 0),
    "one is busy": ({"busy": "b"}, ["fine"] * 5, ["fine"] * 5, 5),
}


@pytest.mark.parametrize(("case", "sources", "expected", "answers"), WORK.values(), ids=WORK.keys())
def test_who_grades_what(
    monkeypatch: pytest.MonkeyPatch, case: dict[str, str], sources: list[str], expected: list[str], answers: int
) -> None:
    ray = FakeRay(**case)
    monkeypatch.setattr(driver, "ray", ray)
    monkeypatch.setattr(machines, "NodeAffinitySchedulingStrategy", lambda node, soft: SimpleNamespace(node_id=node))
    if "busy" in case:
        monkeypatch.setattr(driver, "START_SECONDS", 0)
        monkeypatch.setattr(driver, "FREE_SECONDS", 0 if NONE_FREE in expected else 60)
    jobs = [Job("ada", "n", "e", source, 5, -100.0 if source == "hangs" else 60.0) for source in sources]
    said: list[dict[str, Any]] = []
    work = driver.Work(driver.places([replace(A, cores=1), replace(B, cores=1)], None), False, said.append)
    assert work.about == "2 workers on 2 machines of a Ray cluster"
    work.start(1)
    work.add(jobs)
    while sum("number" in each for each in said) < len(sources):
        work.step()
    done = sorted((each for each in said if "number" in each), key=lambda each: each["number"])
    assert [each["number"] for each in done] == list(range(len(sources)))
    for each, what in zip(done, expected, strict=True):
        assert each.get("problem", "fine").startswith(what)
    assert len(ray.graded) == answers
