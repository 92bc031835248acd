"""Code that does one thing when it is simulated and another as a real process earns nothing by either."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import grading, registry
from grader.ranks.engines import Engines
from grader.submission import Submission
from grader.worlds.twins import twins

RING = (Path(__file__).parents[2] / "demo" / "submissions" / "ada.py").read_text()
# real ranks run in the main thread, simulated ones do not
PEEK = """
import gc, threading, time
honest = ring_all_reduce
def ring_all_reduce(tensor):
    if threading.current_thread() is threading.main_thread():
        return REAL
    return honest(tensor)
"""
REALLY = {
    "sends other messages": ("other(tensor)", "sandbox_violation"),
    "comes to another result": ("[honest(tensor), tensor.mul_(2)][0]", "sandbox_violation"),
    "does not end": ("dist.recv(tensor, (dist.get_rank() + 1) % dist.get_world_size())", "deadlock"),
    "raises": ("1 / 0", "crash"),
    "never does the same": ("[honest(tensor), tensor.add_(time.monotonic_ns())][0]", "nondeterministic"),
}
OTHER = """
def other(tensor):
    n, r = dist.get_world_size(), dist.get_rank()
    mine, got = tensor.clone(), torch.empty_like(tensor)
    for k in range(1, n):
        q = dist.isend(mine, (r + k) % n)
        dist.recv(got, (r - k) % n)
        q.wait()
        tensor += got
"""


@pytest.mark.heavy
@pytest.mark.parametrize("how", REALLY)
def test_no_check_is_passed_by_simulated_ranks_alone(engines: Engines, how: str) -> None:
    real, kind = REALLY[how]
    source = f"{RING}\n{OTHER}\n{PEEK.replace('REAL', real)}"
    verdict = grading.grade(registry.find("ring_all_reduce"), Submission(source, "a.py"), engines, 3)
    won = [check.name for check in verdict.checks if check.points]
    assert not set(won) - {"large"}, won  # which real ranks alone decide
    kinds = {check.diagnosis.kind for check in verdict.checks if check.diagnosis and check.name != "large"}
    assert kind in kinds, kinds


def test_every_group_with_a_small_world_has_one_twin() -> None:
    found = registry.find("ring_all_reduce")
    cases = found.world.drawn(1)
    made = twins(cases, 1)
    groups = {case.group for case in cases if case.engine == "sim" and 2 <= case.ranks <= 8}
    assert {case.group for case in made} == groups
    assert all(twin.engine == "gloo" and twin.arguments == case.arguments for case, twin in made.items())
    assert made.keys() == twins(cases, 1).keys()


KEEPS = """
honest, before = ring_all_reduce, []
def ring_all_reduce(tensor):
    before.append(tensor.numel())
    if len(before) > 1 and dist.get_world_size() > 4:
        other(tensor)
    else:
        honest(tensor)
"""


@pytest.mark.heavy
def test_what_is_kept_from_earlier_calls_is_said_to_be_the_cause(engines: Engines) -> None:
    exercise = grading.only(registry.find("ring_all_reduce"), "any_length")
    verdict = grading.grade(exercise, Submission(f"{RING}{OTHER}{KEEPS}", "a.py"), engines, 3)
    found = verdict.checks[0].diagnosis
    assert found is not None
    assert found.kind == "nondeterministic"
    assert "after other calls" in found.message


WRONG_IN_ITS_OWN_WAY = """
def ring_all_reduce(tensor):
    honest(tensor)
    if dist.get_world_size() > 4:
        tensor.fill_(threading.current_thread() is threading.main_thread())
"""


@pytest.mark.heavy
def test_what_is_wrong_on_simulated_ranks_is_said_first(engines: Engines) -> None:
    exercise = grading.only(registry.find("ring_all_reduce"), "sum")
    verdict = grading.grade(exercise, Submission(f"{RING}{PEEK}{WRONG_IN_ITS_OWN_WAY}", "a.py"), engines, 3)
    assert [check.diagnosis and check.diagnosis.kind for check in verdict.checks] == ["wrong_result"]
