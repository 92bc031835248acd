"""The learner's own copies are never written over, and JupyterLab is opened where they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from grader import catalog
from grader.classroom import lab, own, which
from grader.submission import BadRequest

NAME = "ring_all_reduce"
COPY = Path("work", "06-collectives", "ring_all_reduce.ipynb")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as a wheel installs it, and a learner's folder that is the present one; the package's folder."""
    package = tmp_path / "site-packages" / "grader"
    for folder in ("course", "exercises/06-collectives"):
        shutil.copytree(catalog.root() / folder, package / "_data" / folder)
    monkeypatch.setattr(catalog, "_PACKAGE", package)
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path / "data"))
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    return package


def change(notebook: Path) -> None:
    notebook.write_text(notebook.read_text().replace("Ring all-reduce", "Ring all-reduce, mended"))


def test_a_second_start_leaves_the_copy_and_says_what_to_do(installed: Path) -> None:
    assert own.start(NAME) == own.Started(COPY.absolute())
    change(COPY)
    mine = COPY.read_text()
    with pytest.raises(BadRequest, match=f"is there already.*rankup lab {NAME}.*--fresh") as refused:
        own.start(NAME)
    assert COPY.read_text() == mine
    assert "has changed" not in str(refused.value)  # it was the learner who changed it


def test_fresh_keeps_each_copy_aside(installed: Path) -> None:
    own.start(NAME)
    change(COPY)
    mine = COPY.read_text()
    aside = [own.start(NAME, fresh=True).aside for _ in range(2)]
    assert [path.name for path in aside if path] == ["ring_all_reduce-1.ipynb", "ring_all_reduce-2.ipynb"]
    assert aside[0]
    assert aside[0].read_text() == mine
    assert COPY.read_text() != mine


def test_a_changed_exercise_is_said(installed: Path) -> None:
    own.start(NAME)
    change(installed / "_data" / "exercises" / "06-collectives" / "ring_all_reduce.ipynb")
    with pytest.raises(BadRequest, match="The course's notebook has changed since you started it"):
        own.start(NAME)
    own.start(NAME, fresh=True)
    assert "mended" in COPY.read_text()


@pytest.mark.parametrize("text", ["", "[]", '{"metadata": 1}', '{"metadata": {"rankup": {}}}'])
def test_a_copy_that_says_nothing_of_its_origin_is_left_alone(installed: Path, text: str) -> None:
    COPY.parent.mkdir(parents=True)
    COPY.write_text(text)
    with pytest.raises(BadRequest, match="is there already"):
        own.start(NAME)
    assert COPY.read_text() == text


def test_where_nothing_can_be_written_it_says_so(installed: Path) -> None:
    Path("work").write_text("")
    with pytest.raises(BadRequest, match=r"ring_all_reduce\.ipynb: cannot be written"):
        own.start(NAME)


def test_a_copy_is_the_released_notebook_but_for_its_mark(installed: Path) -> None:
    own.start(NAME)
    copy, released = (json.loads(path.read_text()) for path in (COPY, catalog.exercise_notebook(NAME)))
    assert copy["metadata"].pop("rankup")["exercise"] == NAME
    assert copy == released


def test_copies_are_found_and_started_from_anywhere(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, below, elsewhere = tmp_path / "home", tmp_path / "home" / "notes" / "monday", tmp_path / "elsewhere"
    (tmp_path / "work" / "mine").mkdir(parents=True)
    (tmp_path / "work" / "mine" / "letters.ipynb").touch()  # a folder work/, but without exercises
    assert "here" not in own.next_steps(own.start(NAME), NAME)
    for folder in (below, elsewhere):
        folder.mkdir(parents=True)
        monkeypatch.chdir(folder)
        assert own.home() == home
        with pytest.raises(BadRequest, match=f"{home / COPY} is there already"):
            own.start(NAME)
        assert which.meant(NAME, None) == (NAME, home / COPY)
        assert not list(folder.iterdir())
    other = own.start("collectives")
    assert other.path == home / COPY.with_stem("collectives")
    assert "`rankup start collectives --here` makes one in this folder" in own.next_steps(other, "collectives")

    assert own.start(NAME, here=True).path == elsewhere / COPY
    monkeypatch.chdir(tmp_path)
    assert own.home() == elsewhere, "the last one begun in"
    monkeypatch.chdir(below)
    assert own.home() == home, "the nearest above"
    shutil.rmtree(elsewhere / "work")
    monkeypatch.chdir(elsewhere)
    assert own.start(NAME).path == elsewhere / COPY, "what was begun in holds no copies any more"


def test_chapters_are_unpacked_once(
    installed: Path, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        lab.open_lab("06")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with pytest.raises(SystemExit):
        lab.open_lab("06")
    assert f"--ServerApp.root_dir={tmp_path / 'home'}" in opened[-5:]
    assert not list(elsewhere.iterdir())


def test_in_a_checkout_work_is_beside_the_course(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(catalog.root() / "course")
    assert own.place(NAME) == catalog.root() / COPY
    monkeypatch.chdir(tmp_path)
    assert own.place(NAME) == tmp_path / COPY


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line that took this process's place."""
    arguments: list[str] = []

    def exec_(_: str, command: list[str]) -> Any:
        arguments.extend(command)
        raise SystemExit

    monkeypatch.setattr(os, "execv", exec_)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    return arguments


@pytest.mark.parametrize(
    ("what", "url"),
    [(None, "course/00-start-here.ipynb"), ("06", "course/06-collectives.ipynb"), (NAME, COPY.as_posix())],
)
def test_an_installed_course_is_opened_where_the_learner_is(
    installed: Path, opened: list[str], what: str | None, url: str
) -> None:
    own.start(NAME)
    chapter = Path("course", "06-collectives.ipynb")
    chapter.parent.mkdir()
    chapter.write_text("mine")
    with pytest.raises(SystemExit):
        lab.open_lab(what, ["--no-browser"])
    assert opened[-1] == "--no-browser"
    assert f"--ServerApp.root_dir={Path.cwd()}" in opened
    assert f"--LabApp.default_url=/lab/tree/{url}" in opened
    assert chapter.read_text() == "mine"
    assert what == NAME or Path("course", "labs", "etcd_minority.py").exists()
    assert os.environ["PATH"].startswith(str(Path(sys.executable).parent))


@pytest.mark.parametrize(("what", "sentence"), [("99", "no chapter or exercise"), ("mapreduce", "does not exist")])
def test_what_cannot_be_opened_is_said(
    what: str, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadRequest, match=re.escape(sentence)):
        lab.open_lab(what)


def test_a_copy_in_the_checkout_is_found_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook, checkout = catalog.exercise_notebook(NAME), tmp_path / "checkout"
    monkeypatch.setattr(catalog, "exercise_notebook", lambda _: notebook)
    monkeypatch.setattr(catalog, "is_checkout", lambda: True)
    monkeypatch.setattr(catalog, "root", lambda: checkout)
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    assert own.place(NAME) == tmp_path / COPY, "there is none yet"
    (checkout / COPY).parent.mkdir(parents=True)
    (checkout / COPY).touch()
    assert own.place(NAME) == checkout / COPY
    (tmp_path / COPY).parent.mkdir(parents=True)
    (tmp_path / COPY).touch()
    assert own.place(NAME) == tmp_path / COPY, "one's own here comes first"
