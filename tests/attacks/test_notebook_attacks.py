"""The notebooks that attack `nbgrader autograde` are well-formed; who grades them is tests/classroom's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

sys.path.insert(0, str(Path(__file__).parent / "notebooks"))
import build

RELEASED = Path(__file__).parents[2] / "exercises" / "06-collectives" / "ring_all_reduce.ipynb"


@pytest.fixture(scope="module")
def released() -> Any:
    return nbformat.read(RELEASED, as_version=4)


def test_there_are_enough() -> None:
    assert len(build.attacks()) >= 20


@pytest.mark.parametrize("attack", build.attacks(), ids=lambda attack: attack.name)
def test_an_attack_makes_a_notebook(attack: build.NotebookAttack, released: Any) -> None:
    before = nbformat.writes(released)
    made = build.notebook(attack, released, {"TOKEN": "token", "CANARY": "/nowhere"})
    assert nbformat.writes(released) == before, "the released notebook was changed"
    assert nbformat.writes(made) != before
    assert attack.told.endswith(".")
    assert attack.tries in ("points", "harm")
    assert not any("@RING@" in cell.source or "@NAIVE@" in cell.source for cell in made.cells)


def test_an_attack_without_a_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("# %% solution\npass\n")
    with pytest.raises(ValueError, match="does not begin with a docstring"):
        build.read(path)
