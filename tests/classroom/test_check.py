"""check() and play() in a real kernel."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from grader.classroom.check import MIME

ROOT = Path(__file__).parent.parent.parent
SUBMISSIONS, SOLUTIONS = ROOT / "demo" / "submissions", ROOT / "solutions"


@pytest.fixture(scope="module")
def executed() -> list[list[dict[str, object]]]:
    """The outputs of a notebook's cells, run from top to bottom as a learner would."""
    sources = [
        (SUBMISSIONS / "chen.py").read_text(),
        "from grader import check, play\ncheck(ring_all_reduce)",
        'check(ring_all_reduce, "sum")',
        'check(ring_all_reduce, "bites")',
        "play(ring_all_reduce, 3, lambda rank: torch.arange(6.0) + rank)",
        "check(print)",
        (SUBMISSIONS / "judit.py").read_text(),
        "del ring_all_reduce",
        'check(ring_all_reduce, "sum")',
        "something_else",
        "def hello():\n    import torch.distributed as dist\n    return dist.get_rank()",
        "play(hello, ranks=2).returned",
        "from grader import check\n" + (SUBMISSIONS / "chen.py").read_text(),
        'check(ring_all_reduce, "sum")',
        "from grader import check\n" + (SUBMISSIONS / "chen.py").read_text() + '\ncheck(ring_all_reduce, "sum")\n',
        (SUBMISSIONS / "chen.py").read_text() + '\ncheck(ring_all_reduce, "sum")\n',
    ]
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    NotebookClient(notebook, allow_errors=True, timeout=120, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells]


@pytest.mark.heavy
def test_check_gives_partial_credit_and_every_checks_reason(executed: list[list[dict[str, object]]]) -> None:
    [result] = executed[1]
    assert result["output_type"] == "execute_result"
    assert result["data"]["text/plain"] == "16.0"
    assert "too_many_bytes" in result["data"]["text/html"]
    assert [check["points"] for check in result["data"][MIME]] == [4, 3, 2, 0, 3, 2, 2]


def test_one_check_gives_its_points_and_its_picture(executed: list[list[dict[str, object]]]) -> None:
    [result] = executed[2]
    assert result["data"]["text/plain"] == "4.0"
    assert "<svg" in result["data"]["text/html"]


def test_a_check_that_does_not_exist_is_named_with_those_that_do(executed: list[list[dict[str, object]]]) -> None:
    [error] = executed[3]
    assert "no check 'bites'; it has sum" in error["evalue"]


def test_play_draws_the_run(executed: list[list[dict[str, object]]]) -> None:
    [result] = executed[4]
    assert "ring_all_reduce on 3 ranks: finished" in result["data"]["text/html"]


def test_check_of_something_else_is_refused(executed: list[list[dict[str, object]]]) -> None:
    [error] = executed[5]
    assert error["ename"] == "BadRequest"


def test_a_solution_that_defines_nothing_is_explained_and_still_fails(executed: list[list[dict[str, object]]]) -> None:
    shown, error = executed[8]
    assert "<code>syntax_error</code>" in shown["data"]["text/html"]
    assert error["ename"] == "NameError"


def test_a_cell_that_is_graded_may_import_check_and_not_call_it(executed: list[list[dict[str, object]]]) -> None:
    assert executed[13][0]["data"]["text/plain"] == "4.0"
    for cell, words in ((14, "Call check() in another cell"), (15, "are for the notebook&#x27;s other cells")):
        [result] = executed[cell]
        assert words in result["data"]["text/html"]


def test_other_name_errors_are_left_alone(executed: list[list[dict[str, object]]]) -> None:
    [error] = executed[9]
    assert error["ename"] == "NameError"


def test_play_without_tensors_calls_without_arguments(executed: list[list[dict[str, object]]]) -> None:
    [result] = executed[11]
    assert result["data"]["text/plain"] == "[0, 1]"


@pytest.mark.heavy
def test_check_and_play_take_a_class_too() -> None:
    solved = nbformat.read(SOLUTIONS / "08-tensor-pipeline-3d" / "tensor_parallel.ipynb", as_version=4)
    source = next(cell.source for cell in solved.cells if cell.metadata.get("nbgrader", {}).get("solution"))
    asked = ["from grader import check, play", 'check(RowParallelLinear, "row")', "play(demo, ranks=2).returned"]
    notebook = new_notebook(cells=[new_code_cell(text) for text in (source, *asked)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    assert [cell.outputs[0]["data"]["text/plain"] for cell in notebook.cells[2:]] == ["4.0", "[True, True]"]
