"""Random programs: each ends, and where it ends badly there is a sentence; and real processes end alike."""

from __future__ import annotations

import re
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from fuzz import Fuzzed, generate
from often import by_day

from grader.ranks import faults
from grader.ranks.engines import Engines
from grader.ranks.network import ROUNDS
from grader.ranks.program import Limits, Run, Strided, same_for_all
from grader.ranks.simulated import Session
from grader.verdict import Diagnosis

# Programs that end in a way of ours and not theirs, and why
ONCE_WRONG = (600, 847, 1222, 1654)  # seeds of programs that showed bugs in the simulator
ENDINGS = {"finished", "deadlocked", "crashed", "left_early", "mismatched", "out_of_memory"}
LIMITS = Limits(cpu_seconds=5, idle_seconds=30, silent_seconds=30)  # never reached
QUICK = Limits(cpu_seconds=0.4, idle_seconds=0.8)  # for what is known to reach them
A_CHUNK = 50


@pytest.fixture(scope="module")
def session(engines: Engines) -> Iterator[Session]:
    """One process for as many programs as end well."""
    with engines.session() as shared:
        yield shared


def run(
    engines: Engines, fuzzed: Fuzzed, session: Session | None = None, engine: str = "sim", limits: Limits = LIMITS
) -> Run:
    happens = [faults.parse(text, fuzzed.ranks) for text in fuzzed.faults]
    calls = [same_for_all(fuzzed.ranks)] * fuzzed.calls
    return engines.run(
        engine, fuzzed.program, fuzzed.ranks, calls, fuzzed.seed, limits, fuzzed.network, session, happens
    )


def told(run: Run) -> list[Diagnosis]:
    """Everything that is said of a run."""
    return [*run.diagnoses, *(found for call in run.calls for found in call.diagnoses)]


def check_the_end(fuzzed: Fuzzed, run: Run) -> None:
    """A run ends in a way that has a name, and says why."""
    found = told(run)
    assert run.ending in ENDINGS, found
    assert run.finished or run.diagnoses, "no word of why it ended"
    for diagnosis in found:
        assert diagnosis.kind not in ("sandbox_violation", "timeout"), diagnosis.message
        assert diagnosis.message.strip().endswith((".", "?")), diagnosis.message
        assert diagnosis.line is None or 0 < diagnosis.line <= len(fuzzed.source.splitlines()), diagnosis
    ours = re.search(r'File "[^"]*/grader/.*', "".join(run.stderr))
    assert ours is None, f"a frame of ours in a traceback: {ours and ours[0]}\n{''.join(run.stderr)}"
    if not fuzzed.broken and not fuzzed.faults:
        assert run.finished, found
        assert not [d for d in found if d.kind != "race"], found
    if run.finished:
        assert len(run.calls) == fuzzed.calls
    for call in run.calls:
        if call.finish:
            check_the_times(call.trace, call.finish)


def check_the_times(trace: Any, finish: tuple[float, ...]) -> None:
    """Nothing happens before its cause."""
    for op in trace.all_operations():
        if op.done:
            assert op.posted <= op.waited <= op.resumed, op
            assert op.started <= op.ended <= op.resumed, op
            assert op.receives or op.posted <= op.started, op  # an eager message goes before its receive
            assert op.resumed <= finish[op.rank] * 1e9 + 1, op


def attempt(fuzzed: Fuzzed, check: Callable[[], None]) -> str:
    """What went wrong with a program, and the program; empty where nothing did."""
    try:
        check()
    except Exception:
        return f"{traceback.format_exc()}\n{fuzzed}\n"
    return ""


def endings(engines: Engines, session: Session, seeds: Iterable[int]) -> str:
    """What went wrong with the programs of these seeds."""
    programs = [generate(seed) for seed in seeds]
    return "".join(attempt(p, lambda p=p: check_the_end(p, run(engines, p, session))) for p in programs)  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(100))
def test_every_program_ends_and_says_why(engines: Engines, session: Session, seed: int) -> None:
    assert not (wrong := endings(engines, session, [seed])), wrong


@pytest.mark.parametrize("first", by_day(range(0, 2000, A_CHUNK)))
def test_every_one_of_many_programs_ends_and_says_why(engines: Engines, session: Session, first: int) -> None:
    assert not (wrong := endings(engines, session, range(first, first + A_CHUNK))), wrong


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_a_program_that_once_ended_wrongly(engines: Engines, session: Session, seed: int) -> None:
    assert not (wrong := endings(engines, session, [seed])), wrong


# ---- the same programs on real processes


def plain(value: Any) -> Any:
    """A result in Python's own types."""
    if isinstance(value, Strided):
        return [value.storage.dtype.name, value.shape, value.view().tolist()]
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def essence(run: Run) -> dict[str, Any]:
    """What must not depend on the engine. Where a rank broke, how far the others got is chance on real processes."""
    kinds = sorted({found.kind for found in told(run)}) if run.finished else [run.diagnoses[0].kind]
    same: dict[str, Any] = {"ending": run.ending, "kinds": kinds}
    for call in run.calls if run.finished else ():
        same["returned"] = [plain(value) for value in call.returned]
        same["bytes"] = [call.trace.bytes_sent(rank) for rank in range(run.ranks)]
        same["messages"] = [call.trace.messages_sent(rank) for rank in range(run.ranks)]
        same["operations"] = [[(o.name, o.size) for o in call.trace.operations(rank)] for rank in range(run.ranks)]
    return same


def compare(engines: Engines, session: Session, seeds: Iterable[int]) -> str:
    """Where the engines differ on the programs of these seeds."""

    def check(fuzzed: Fuzzed) -> None:
        simulated, real = run(engines, fuzzed, session), run(engines, fuzzed, engine="gloo")
        said = "\n".join(
            f"{which}: {[d.message for d in told(r)]}" for which, r in (("sim", simulated), ("gloo", real))
        )
        assert essence(simulated) == essence(real), said
        check_the_end(fuzzed, simulated)
        check_the_end(fuzzed, real)

    return "".join(attempt(p, lambda p=p: check(p)) for p in (generate(s, True) for s in seeds))  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(20))
def test_real_processes_end_alike(engines: Engines, session: Session, seed: int) -> None:
    assert not (wrong := compare(engines, session, [seed])), wrong


@pytest.mark.heavy
@pytest.mark.parametrize("first", range(0, 100, 10))
def test_real_processes_end_alike_many_times(engines: Engines, session: Session, first: int) -> None:
    assert not (wrong := compare(engines, session, range(first, first + 10))), wrong


# ---- what the fuzzer found, each as small as it gets


BODY = """\
import time
import torch, torch.distributed as dist
from grader import compute
def f():
    r, n, x = dist.get_rank(), dist.get_world_size(), torch.zeros(4) + dist.get_rank()
"""


def found(engines: Engines, body: str, befalls: tuple[str, ...] = (), ranks: int = 2, **more: Any) -> Run:
    """A run of a body, and that it ended as any must."""
    source = BODY + textwrap.indent(body, "    ")
    fuzzed = Fuzzed(more.pop("seed", 1), source, ranks, more.pop("calls", 1), ROUNDS, befalls, ("by hand",))
    ended = run(engines, fuzzed, **more)
    check_the_end(fuzzed, ended)
    return ended


def returned(run: Run, call: int = 0) -> list[Any]:
    return [plain(value) for value in run.calls[call].returned]


def test_the_last_to_join_a_collective_need_not_wait_for_it(engines: Engines) -> None:
    body = "compute(r)\nw = dist.all_reduce(x, async_op=True)\nif r == 0: w.wait()\nreturn r"
    assert found(engines, body).finished


def test_a_rank_killed_at_a_time_is_killed_in_every_call(engines: Engines) -> None:
    ended = found(engines, "compute(5)\nreturn r", ("kill:1@t=2",), calls=3)
    assert [returned(ended, call) for call in range(3)] == [[0, None]] * 3


@pytest.mark.parametrize("shape", ["-1, 1", "2, 2"])
def test_a_reduction_does_not_mind_shapes(engines: Engines, shape: str) -> None:
    body = f"if r == 0: x = x.view({shape})\ndist.all_reduce(x)\nreturn x.view(-1)"
    assert returned(found(engines, body)) == returned(found(engines, body, engine="gloo"))


@pytest.mark.parametrize(
    ("body", "befalls"),
    [
        ("try: dist.send(x, 5)\nexcept ValueError as error: raise KeyError('lost') from error", ()),
        ("try: dist.barrier()\nexcept RuntimeError: raise KeyError('lost')", ("kill:1@op=1",)),
    ],
    ids=["a cause", "a context"],
)
def test_a_chain_of_exceptions_shows_no_frames_of_ours(engines: Engines, body: str, befalls: tuple[str, ...]) -> None:
    assert found(engines, body, befalls).ending == "crashed"


@pytest.mark.parametrize("work", ["compute(1e10)", "compute(float('inf'))", "time.sleep(-1)"])
def test_a_time_that_is_none_is_refused_in_words(engines: Engines, work: str) -> None:
    ended = found(engines, f"{work}\ndist.barrier()")
    assert ended.finished or "ValueError" in ended.diagnoses[0].message, ended.diagnoses[0].message


def test_a_receive_from_any_in_a_group_does_not_mind_who_is_gone_elsewhere(engines: Engines) -> None:
    body = (
        "g = dist.new_group([0, 1])\nif r == 2: compute(9)\nif r == 0: compute(1); dist.send(x, 1, group=g)\n"
        "if r == 1: dist.recv(x, group=g)"
    )
    assert found(engines, body, ("kill:2@t=0.5",), 3).finished


@pytest.mark.parametrize("seed", range(1, 9))  # the kill and the message come at one time, in either order
def test_a_receive_from_any_may_find_its_message_as_it_is_told_of_a_rank_that_is_gone(
    engines: Engines, seed: int
) -> None:
    body = """
if r == 1: compute(5)
if r == 2: compute(1); dist.send(x, 0)
if r: return
lost, seen = dist.isend(torch.zeros(4), 1), []
for _ in range(2):
    got = dist.irecv(torch.zeros(4))
    try: got.wait(); seen.append("message")
    except RuntimeError: seen.append("gone")
for failed in (lost, *([got] if seen[1] == "gone" else [])):  # and so it says if one waits again
    try: failed.wait(); seen.append("no error")
    except RuntimeError: pass
return sorted(seen)"""
    ended = found(engines, body, ("kill:1@t=1",), 3, seed=seed)
    assert ended.finished, ended.diagnoses
    assert returned(ended)[0] == ["gone", "message"]


def test_a_lost_message_that_any_receive_waits_for_is_named(engines: Engines) -> None:
    ended = found(engines, "dist.send(x, 0) if r else dist.recv(x)", ("drop:1-0",))
    assert "message from rank 1 to rank 0 was lost" in ended.diagnoses[0].message, ended.diagnoses[0].message


def test_of_two_kills_the_first_to_come_is_told(engines: Engines) -> None:
    ended = found(engines, "compute(2)", ("kill:1@t=5", "kill:1@t=1"))
    assert "killed at 1 s" in ended.diagnoses[0].message


def test_a_loop_until_a_collective_is_completed_ends(engines: Engines) -> None:
    body = "w = dist.all_reduce(x, async_op=True)\nwhile not w.is_completed(): pass\nreturn x"
    assert found(engines, body, limits=QUICK).finished


def test_a_loop_that_never_ends_is_told_with_what_was_done_before(engines: Engines) -> None:
    source = BODY + "    dist.barrier()\n    while r: pass\n"
    ended = run(engines, Fuzzed(1, source, 2, 1, ROUNDS, (), ("by hand",)), limits=QUICK)
    assert "after 1 communication call" in ended.diagnoses[0].message, ended.diagnoses[0].message


def test_real_processes_tell_who_waits_in_a_monitored_barrier(engines: Engines) -> None:
    assert found(engines, "if r == 0: dist.monitored_barrier()", engine="gloo", limits=QUICK).ending == "left_early"


@pytest.mark.parametrize("times", ["0.5", "0.5..2.5", "1.5ms..2"])
def test_a_partitions_times_may_have_fractions(times: str) -> None:
    assert faults.parse(f"partition:0|1@t={times}", 2).since > 0
