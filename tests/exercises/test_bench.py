"""What cannot be judged gives no points and says why; it neither passes nor breaks the grading."""

from __future__ import annotations

from submissions import files

from grader.exercise import find, grade
from grader.ranks.engines import Engines
from grader.submission import Submission

IN_A_THREAD = """

_inner = hierarchical_all_reduce


def hierarchical_all_reduce(tensor, ranks_per_node):
    import threading

    thread = threading.Thread(target=_inner, args=(tensor, ranks_per_node))
    thread.start()
    thread.join()
"""


def test_a_speed_that_cannot_be_simulated_gives_no_points(engines: Engines) -> None:
    right = files("alternatives", "hierarchical_all_reduce")[0].read_text()
    exercise = find("hierarchical_all_reduce")
    verdict = grade(exercise, Submission(right + IN_A_THREAD, "a.py"), engines, 1)
    lost = {check.name: check for check in verdict.checks if check.status != "pass"}
    assert list(lost) == ["speed"], lost
    found = lost["speed"].diagnosis
    assert found is not None
    assert (lost["speed"].status, lost["speed"].points, found.kind) == ("skipped", 0, "unsupported_engine")
    assert "cannot be simulated (it communicates in a thread of its own)" in found.message


def test_without_the_simulator_a_speed_is_not_run(engines: Engines) -> None:
    right = files("alternatives", "hierarchical_all_reduce")[0].read_text()
    verdict = grade(find("hierarchical_all_reduce"), Submission(right, "a.py"), engines, 1, "gloo")
    skipped = [check.name for check in verdict.checks if check.status == "skipped"]
    assert skipped == ["speed"]
