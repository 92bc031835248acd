"""The same seed gives the same simulated run: in every repetition, in every process, whatever Python hashes with."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from often import by_day, often

from grader.ranks import faults
from grader.ranks.engines import Engines
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Limits, Program, Run, Strided, same_for_all
from grader.sandbox import bwrap, warm

HEAD = """\
import random, time
import torch, torch.distributed as dist
from grader import compute
def f():
    r, n = dist.get_rank(), dist.get_world_size()
    x = torch.arange(6.0) + r
"""
LIMITS = Limits(cpu_seconds=10, idle_seconds=60, silent_seconds=60)
UNEVEN = Network(alpha=1e-3, beta=1e-6, eager_bytes=8, ranks_per_node=2, uplink_alpha=5e-3, uplink_beta=1e-5)


@dataclass(frozen=True)
class Known:
    """A program, and how it is run."""

    body: str
    ranks: int = 4
    network: Network = ROUNDS
    befalls: tuple[str, ...] = ()
    calls: int = 1


PROGRAMS = {
    "a ring": Known(
        """
    for step in range(3):
        y = torch.empty(6)
        q = dist.isend(x, (r + 1) % n)
        dist.recv(y, (r - 1) % n)
        q.wait()
        x = y + random.random()
    return x, torch.rand(2)
""",
        6,
        UNEVEN,
    ),
    "any source": Known(
        """
    if r:
        for k in range(3): dist.send(x + k, 0)
        return None
    seen = []
    for _ in range(3 * (n - 1)): seen.append((dist.recv(x), x.tolist()))
    return seen
""",
        5,
        calls=2,
    ),
    "overlap": Known(
        """
    gradients, works = [x + k for k in range(4)], []
    for g in gradients:
        compute(0.5 + 0.1 * r)
        works.append(dist.all_reduce(g, async_op=True))
    for w, g in zip(works, gradients):
        w.wait()
        g /= n
    names = {f"layer{k}": float(g.sum()) for k, g in enumerate(gradients)}
    return [names[k] for k in set(names)], time.time()
""",
        4,
        Network(alpha=0.1, beta=0.01),
    ),
    "groups and objects": Known(
        """
    g = [dist.new_group(list(range(k, n, 2))) for k in range(2)][r % 2]
    dist.all_reduce(x, group=g)
    o = [None] * n
    dist.all_gather_object(o, {"rank": r, "values": x.tolist()})
    w = dist.isend(x, (r + 1) % n, tag=3)
    return o
""",
        calls=2,
    ),
    "faults": Known(
        """
    done = []
    for step in range(4):
        compute(0.25 * (r + 1))
        try:
            q = dist.isend(x, (r + 1) % n)
            dist.recv(x, (r - 1) % n)
            q.wait()
            done.append(step)
        except RuntimeError as gone:
            done.append(str(gone))
            break
    return done
""",
        4,
        Network(alpha=0.5, beta=0.01),
        ("slow:1x3", "delay:0-1=2@op=2", "partition:0,1|2,3@t=2..4", "kill:3@op=6"),
    ),
    "a lost message": Known(
        """
    for step in range(3):
        q = dist.isend(x, (r + 1) % n)
        dist.recv(x.clone(), (r - 1) % n)
        q.wait()
""",
        3,
        ROUNDS,
        ("drop:1-2@op=2",),
    ),
    "a mismatch": Known("\n    dist.all_reduce(x)\n    dist.broadcast(x, src=r % 2)\n"),
    "a crash": Known("\n    dist.barrier()\n    if r % 2: raise ValueError({'a', 'b'})\n    dist.barrier()\n", 6),
}


OWN_HASHES = ("overlap", "a crash")  # these show the order of a set


def simulate(engines: Engines, known: Known, seed: int, session: Any = None) -> Run:
    code = Program.of(HEAD + known.body, "learner.py", "f")
    happens = [faults.parse(text, known.ranks) for text in known.befalls]
    calls = [same_for_all(known.ranks)] * known.calls
    return engines.run("sim", code, known.ranks, calls, seed, LIMITS, known.network, session, happens)


def plain(value: Any) -> Any:
    if isinstance(value, Strided):
        return [value.storage.dtype.name, value.shape, value.view().tolist()]
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def digest(run: Run) -> str:
    """A hash of everything that a run says: events with their virtual times, results, words."""
    calls = [
        [
            [[(step.what, asdict(step.operation)) for step in rank] for rank in trace.steps],
            [asdict(span) for span in trace.spans],
            sorted(trace.groups.items()),
        ]
        for trace in [*(call.trace for call in run.calls), run.trace]
    ]
    results = [
        [plain(call.returned), call.finish, call.peak_bytes, [asdict(d) for d in call.diagnoses]] for call in run.calls
    ]
    ended = [run.ending, [asdict(d) for d in run.diagnoses], run.stdout, run.stderr, run.cycle, run.marks]
    return hashlib.sha256(repr((calls, results, ended)).encode()).hexdigest()


def digests(engines: Engines, times: int, names: Iterable[str] = tuple(PROGRAMS)) -> dict[str, set[str]]:
    """The hashes that the programs have, each run so many times, most in one process."""
    found: dict[str, set[str]] = {name: set() for name in names}
    for name, hashes in found.items():
        with engines.session() as session:
            for k in range(times):
                hashes.add(digest(simulate(engines, PROGRAMS[name], 3, session if k % 10 else None)))
    return found


@pytest.mark.parametrize("name", often(PROGRAMS.keys(), *(PROGRAMS.keys() - {"faults"})))
def test_one_seed_gives_one_trace(engines: Engines, name: str) -> None:
    assert len(digests(engines, 30 if name in ("any source", "faults") else 6, [name])[name]) == 1


@pytest.mark.parametrize("name", by_day(PROGRAMS.keys()))
def test_one_seed_gives_one_trace_100_times(engines: Engines, name: str) -> None:
    assert len(digests(engines, 100, [name])[name]) == 1


@pytest.mark.soak
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_seed_gives_one_trace_1000_times(engines: Engines, name: str) -> None:
    assert len(digests(engines, 1000, [name])[name]) == 1


@pytest.mark.heavy
def test_hashing_does_not_matter(engines: Engines) -> None:
    """In processes of their own, the grading one and the ranks', that hash as told."""
    here = digests(engines, 1)
    elsewhere = {
        hash_seed: subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("0", "1", "12345")
    }
    for hash_seed, process in elsewhere.items():
        told, wrong = process.communicate(timeout=300)
        assert process.returncode == 0, wrong
        found = json.loads(told)
        different = [name for name in PROGRAMS if name not in OWN_HASHES and found[name] != list(here[name])]
        assert not different, f"PYTHONHASHSEED={hash_seed}"


def test_a_program_that_shows_the_order_of_a_set_is_the_same_in_every_host(engines: Engines) -> None:
    with Engines() as others:
        assert [digests(others, 1, [name]) for name in OWN_HASHES] == [digests(engines, 1, [n]) for n in OWN_HASHES]


@pytest.mark.parametrize("name", ["any source"])
def test_another_seed_may_give_another_run(engines: Engines, name: str) -> None:
    """Who runs first where nothing else decides is the seed's: a program that relies on it does not always pass."""
    runs = [simulate(engines, PROGRAMS[name], seed) for seed in range(8)]
    assert len({digest(run) for run in runs}) > 1
    assert len({repr(plain(run.calls[0].returned)) for run in runs}) > 1


@pytest.mark.parametrize("name", ["a ring", "overlap", "groups and objects"])
def test_another_seed_changes_no_result_where_messages_name_their_source(engines: Engines, name: str) -> None:
    known = Known(PROGRAMS[name].body.replace("random.random()", "0.5").replace("torch.rand(2)", "0"), 4)
    runs = [simulate(engines, known, seed) for seed in range(4)]
    assert len({repr([plain(run.calls[0].returned), run.calls[0].finish]) for run in runs}) == 1


def _elsewhere() -> None:
    """Print the hashes, with ranks that hash as this process does: by itself the host takes nothing from us."""
    given, launch = bwrap.environment, subprocess.Popen
    bwrap.environment = lambda: {**given(), "PYTHONHASHSEED": os.environ["PYTHONHASHSEED"]}

    def as_told(command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        return launch([part for part in command if part != "-I"], **more)  # -I ignores PYTHONHASHSEED

    warm.subprocess.Popen = as_told  # type: ignore[misc,assignment]
    with Engines() as engines:
        assert simulate(engines, Known("\n    return hash('a')\n", 1), 1).calls[0].returned == (hash("a"),)
        print(json.dumps({name: sorted(hashes) for name, hashes in digests(engines, 2).items()}))


if __name__ == "__main__":
    _elsewhere()
