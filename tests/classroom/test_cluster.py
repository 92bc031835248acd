"""A class on a Ray cluster of two machines: the verdicts of this one, whatever is lost on the way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import batch_class
import psutil
import pytest
from often import by_day, on_day

from grader import grading, registry
from grader.classroom.batch import cluster, run
from grader.classroom.batch.cluster import ClusterPool
from grader.classroom.batch.pool import Done, Job
from grader.classroom.service import FILE
from grader.ranks.engines import Engines
from grader.sandbox import modes
from grader.submission import BadRequest, Submission
from grader.verdict import Verdict

pytest.importorskip("ray")
ROOT = Path(__file__).parent.parent.parent
SCRIPT = Path(__file__).with_name("ray_cluster.py")
WORKER, SLOT = "grader.classroom.service", "ray::Slot"
QUICK = ("ada", "chen", "dmitri")  # all marks, some, none
QUICKEST = "judit"
TRUST = modes.mode() != "full"  # without it there is none to grade with
LONG = "ivan"  # never ends: its grading takes seconds


class Cluster:
    """Two machines with one processor each, and what tests do to them."""

    def __init__(self, folder: Path) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in close()
        self.process = subprocess.Popen(
            [sys.executable, SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "RAY_TMPDIR": str(folder), "HOME": str(folder)},
            text=True,
        )
        self._hear()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if not said:
            self.close()
        answer = json.loads(said)
        self.address: str = answer["address"]
        self.raylets: list[int] = answer["raylets"]

    def _ask(self, what: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        print(json.dumps(what), file=self.process.stdin, flush=True)
        self._hear()

    def add(self, name: str, **environment: str) -> None:
        """One machine more."""
        self._ask({"add": {"name": name, "environment": environment}})

    def remove(self) -> None:
        """The newest is gone, as after a power cut."""
        self._ask({"remove": 1})

    @contextmanager
    def third(self, **environment: str) -> Iterator[None]:
        """With a third machine for a while."""
        self.add("third", **environment)
        try:
            yield
        finally:
            self.remove()

    def processes(self, *words: str) -> list[psutil.Process]:
        """What there is on the machines that has one of these words in its command line, the first machine's first."""
        return [each for pid in self.raylets for each in family(pid) if any(word in line(each) for word in words)]

    def close(self) -> None:
        """End it. Fails if it had ended by itself."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        status = self.process.wait(60)
        self.process.stdout.close()
        self._errors.seek(0)
        said = self._errors.read()
        self._errors.close()
        assert status == 0, said


def family(pid: int) -> list[psutil.Process]:
    """All processes below one."""
    return psutil.Process(pid).children(recursive=True)


def line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def gone(processes: list[psutil.Process]) -> bool:
    """Whether these end."""
    return not psutil.wait_procs(processes, timeout=60)[1]


@pytest.fixture(scope="module")
def machines() -> Iterator[Cluster]:
    """The cluster; nothing of it is left at the end."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        patch.setenv("RAY_AUTH_MODE", "disabled")  # whatever the person who runs this has set up
        patch.delenv("RAY_ADDRESS", raising=False)
        with closing(Cluster(Path(folder))) as made:
            yield made
            there = family(made.process.pid)
        assert gone(there)
        assert not (Path(folder) / ".ray").exists()


@pytest.fixture
def pool(machines: Cluster) -> Iterator[ClusterPool]:
    """A worker on each machine, both warm; they are gone at the end."""
    with closing(cluster.open_pool(machines.address, trust=TRUST)) as made:
        seen: set[str] = set()
        while len(seen) < 2:
            seen |= {done.worker for done in made.results([job("a", QUICKEST), job("b", QUICKEST)])}
        yield made
        there = machines.processes(WORKER, SLOT)
    assert gone(there)


def job(student: str, name: str) -> Job:
    source = (ROOT / "demo" / "submissions" / f"{name}.py").read_text()
    return Job(student, "ring_all_reduce", "ring_all_reduce", source, 5)


def graded(job: Job, engines: Engines) -> Verdict:
    """The verdict of this machine."""
    return grading.grade(registry.find(job.exercise), Submission(job.source, FILE), engines, job.seed)


def outcome(verdict: Verdict | None) -> list[tuple[str, float, str]]:
    """What a learner is told, by check. Where a loop that never ends was when it was ended is anybody's guess."""
    assert verdict is not None
    said = []
    for check in verdict.checks:
        what = check.diagnosis and (
            check.diagnosis.kind if check.diagnosis.kind == "timeout" else check.diagnosis.message
        )
        said.append((check.name, check.points, what or ""))
    return said


def both_at_work(pool: ClusterPool, *more: Job) -> tuple[Iterator[Done], list[Done]]:
    """Results, and the first of them: one worker has begun with the next job, the other with one that takes long."""
    results = pool.results([job("first", QUICKEST), job("long", LONG), *more])
    return results, [next(results)]


@on_day(0, 2)
def test_the_submissions_of_a_lost_machine_are_graded_by_the_others(
    machines: Cluster, pool: ClusterPool, engines: Engines
) -> None:
    jobs = [job(name, name) for name in QUICK]
    assert pool.about == "2 workers on 2 machines of a Ray cluster"
    results, done = both_at_work(pool, *jobs)
    machines.remove()
    try:
        done += results
        assert sorted(each.job.student for each in done) == sorted(["first", "long", *QUICK])
        assert pool.about == "1 worker on 1 machine of a Ray cluster"
    finally:
        machines.add("second")
    told = {each.job.student: outcome(each.verdict) for each in done}
    assert {name: told[name] for name in QUICK} == {each.student: outcome(graded(each, engines)) for each in jobs}
    assert {what for _, _, what in told["long"]} == {"timeout"}


@pytest.mark.parametrize("which", by_day([WORKER, SLOT], 2))
def test_a_process_that_is_killed_is_replaced(machines: Cluster, pool: ClusterPool, which: str) -> None:
    results, done = both_at_work(pool, job("another", LONG))
    killed = machines.processes(which)[-1]
    there = [killed, *family(killed.pid)]
    killed.kill()
    assert gone(there)
    done += results
    assert sorted(each.job.student for each in done) == ["another", "first", "long"]
    assert all(each.verdict for each in done)
    assert pool.about == "2 workers on 2 machines of a Ray cluster"


@on_day(1, 2)
def test_stopping_ends_the_workers_and_leaves_the_cluster(machines: Cluster, pool: ClusterPool) -> None:
    results, _ = both_at_work(pool, job("another", LONG))
    slots = machines.processes(SLOT)
    there = [each for slot in slots for each in (slot, *family(slot.pid))]
    pool.close()
    assert [each.problem for each in results] == ["the run was stopped"] * 2
    assert len(slots) == 2
    assert gone(there)
    with closing(cluster.open_pool(machines.address, 1, trust=TRUST)) as again:
        assert again.about == "1 worker on 1 machine of a Ray cluster"


@pytest.mark.parametrize(
    ("files", "found"),
    by_day({"another": ("*", "rankup "), "none": ("__init__.py", "no rankup, or an older one")}, 2),
)
def test_a_machine_with_another_version_is_refused(machines: Cluster, tmp_path: Path, files: str, found: str) -> None:
    copy = tmp_path / "grader"
    copy.mkdir()
    for each in (ROOT / "grader").glob(files):
        (shutil.copytree if each.is_dir() else shutil.copy)(each, copy / each.name)
    with open(copy / "__init__.py", "a") as source:
        source.write("# more points for everybody\n")
    with machines.third(PYTHONPATH=str(tmp_path)), pytest.raises(BadRequest) as raised:
        cluster.open_pool(machines.address, trust=True)
    assert f"(third) has {found}" in str(raised.value)
    assert str(raised.value).endswith(": install the same version on all machines of the cluster")


@on_day(0, 2)
@pytest.mark.skipif(TRUST, reason="no machine can isolate submissions here")
def test_a_machine_that_cannot_isolate_is_used_on_request_only(machines: Cluster) -> None:
    with machines.third(RANKUP_SANDBOX="none"):
        with closing(cluster.open_pool(machines.address)) as pool:
            assert pool.about == "2 workers on 2 machines of a Ray cluster"
            assert "(third) is not used: submissions cannot be isolated there" in "".join(pool.remarks)
        with closing(cluster.open_pool(machines.address, trust=True)) as pool:
            assert pool.about == "3 workers on 3 machines of a Ray cluster"
            assert "(third) (the mode is none): grade only code that you trust there" in "".join(pool.remarks)


@pytest.mark.heavy
def test_a_class_is_graded_on_a_cluster(
    machines: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    room = batch_class.empty(tmp_path)
    for name in QUICK:
        room.hand_in(name, job(name, name).source)
    monkeypatch.setenv("RANKUP_CLASS", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", machines.address)
    monkeypatch.setenv(modes.LEAST, "")
    assert run.grade_class(run.Wanted(batch_class.ASSIGNMENT, engine="ray", trust=TRUST, seed=5)) == 0
    assert [room.score(name)[0] for name in QUICK] == [20, 16, 0]
    printed = capfd.readouterr()
    assert "2 workers on 2 machines of a Ray cluster" in batch_class.words(printed.out)
    assert printed.err == ""
