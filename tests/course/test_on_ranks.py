"""What chapters import can be imported on their ranks, in the box, and the answers of exercises with it cannot."""

from __future__ import annotations

import pytest

from grader.ranks.engines import Engines
from grader.ranks.program import Limits, Program, same_for_all
from grader.sandbox import modes

SOURCE = """
def asked(name):
    import importlib
    try:
        return importlib.import_module(name).__name__
    except ImportError as error:
        return f"{type(error).__name__}: {error}"
"""


@pytest.mark.parametrize("kind", ["sim", "gloo"])
def test_ranks_import_the_library_and_no_answers(engines: Engines, kind: str) -> None:
    names = ("courselib.softmax", "courselib.mixing", "courselib.planner", "grader.exercises", "grader.classroom")
    program = Program.of(SOURCE, "a cell", "asked")
    calls = [same_for_all(2, name) for name in names]
    said = [call.returned[0] for call in engines.run(kind, program, 2, calls, 1, Limits()).calls]
    assert said[:2] == [*names[:2]]
    if modes.wanted()[0] == "full":
        hidden = ("grader.exercises", "grader.exercises", "grader.classroom")
        assert said[2:] == [f"ModuleNotFoundError: No module named {name!r}" for name in hidden]
