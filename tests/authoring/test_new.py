"""A new exercise is whole before anything of it is changed, and what is wrong with one is said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grader import catalog, packs, registry
from grader.authoring import check, new, sync, wrong
from grader.submission import BadRequest

NAME = "tried_by_a_test"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """A new exercise, in a copy of the course where it leaves nothing behind."""
    root, home = catalog.root(), tmp_path / f"pack_{tmp_path.name}"
    for folder in ("course", "solutions", "exercises"):
        (tmp_path / folder).mkdir()
    (tmp_path / "solutions" / "06-collectives").mkdir()
    shutil.copy(root / "course" / "syllabus.yaml", tmp_path / "course")
    chapter = json.loads((root / "course" / "06-collectives.ipynb").read_text())
    chapter["cells"].append({"cell_type": "markdown", "source": [f"[x](../exercises/06-collectives/{NAME}.ipynb)"]})
    (tmp_path / "course" / "06-collectives.ipynb").write_text(json.dumps(chapter))
    home.mkdir()
    (home / "__init__.py").touch()
    monkeypatch.setattr(catalog, "root", lambda: tmp_path)
    monkeypatch.setattr(packs, "names", lambda: (packs.OURS, home.name))
    monkeypatch.syspath_prepend(tmp_path)
    packs.folders.cache_clear()
    registry.folders.cache_clear()
    yield new.new(NAME, "ranks", "06", home.name)
    monkeypatch.undo()
    for cached in (packs.folders, registry.folders, wrong.wrongs):
        cached.cache_clear()


def test_a_new_exercise_is_whole(made: list[Path]) -> None:
    names = {path.name for path in made}
    assert names == {"__init__.py", "wrong.md", "star.py", "tree.py", "solution.ipynb", f"{NAME}.ipynb"}
    said: list[str] = []
    assert list(check.problems(NAME, said.append)) == []
    assert said == [
        *("the unsolved notebook", "reference", "right/star", "right/tree"),
        *("wrong/does_nothing", "wrong/told_twice"),
    ]


def test_what_is_wrong_with_an_exercise_is_said(made: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    (star,) = [path for path in made if path.name == "star.py"]
    (tree,) = [path for path in made if path.name == "tree.py"]
    (wrongs,) = [path for path in made if path.name == "wrong.md"]
    tree.unlink()
    star.write_text(star.read_text().replace("range(1, n)", "range(2, n)"))
    text = wrongs.read_text().replace("range(1, n)", "range(2, n)")
    wrongs.write_text(text.replace("kind: wrong_result; only: yes", "kind: deadlock"))
    found = registry.find(NAME)
    dearer = replace(found, checks=(replace(found.checks[0], points=4), *found.checks[1:]))
    monkeypatch.setattr(registry, "find", lambda name: dearer)
    said = "\n".join(check.problems(NAME))
    assert "no wrong submission is caught by 'values' alone" in said
    assert "at least two right solutions" in said
    assert "solution.ipynb does not match EXERCISE" in said
    assert "right/star is right, but loses points in 'values': " in said
    assert "wrong/does_nothing: 'values' says wrong_result, but must say deadlock" in said


@pytest.mark.parametrize(
    ("name", "world", "chapter", "why"),
    [
        ("No-name", "ranks", "06", "is not a name for an exercise"),
        ("raft", "ranks", "06", "there is already an exercise called raft"),
        ("fresh", "spark", "06", "copy the folder and the notebook of spark_rdd"),
        ("fresh", "moon", "06", "no world is called 'moon'"),
        ("fresh", "ranks", "99", "there is no chapter '99'"),
    ],
)
def test_what_cannot_be_made_is_one_sentence(name: str, world: str, chapter: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        new.new(name, world, chapter)
    with pytest.raises(BadRequest, match="no pack is called 'mine'"):
        new.new("fresh", "ranks", "06", "mine")


@pytest.mark.parametrize("name", registry.names())
def test_every_exercise_of_ours_is_whole_as_it_is_written(name: str) -> None:
    assert list(check.written(registry.find(name))) == []


def test_a_notebook_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.ipynb").write_text('{"cells": []}')
    with pytest.raises(BadRequest, match="is not a notebook that begins with a statement"):
        sync.read(tmp_path / "x.ipynb")
