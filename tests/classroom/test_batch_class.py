"""A class graded in this process: what reaches the gradebook, and what is graded again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from batch_class import ASSIGNMENT, NOTEBOOK, RIGHT, ROOT, WRONG, Class, InstantPool, empty, solved, words

from grader.classroom.batch import course, publish, records, run, tasks, whole
from grader.classroom.batch.pool import Done, Job
from grader.sandbox import modes
from grader.submission import BadRequest


@pytest.fixture
def room(tmp_path: Path) -> Class:
    """A class of its own for a test."""
    return empty(tmp_path)


def test_points_records_and_pages(room: Class, capsys: pytest.CaptureFixture[str]) -> None:
    room.hand_in("ada", RIGHT)
    room.hand_in("bo", WRONG)
    assert room.grade(seed=7) == (0, ["ada", "bo"])
    assert (room.score("ada"), room.score("bo")) == ((20, False), (0, False))
    assert (room.record("ada")["seed"], room.record("ada")["points"]) == (7, 20)
    cells = json.loads(room.graded("bo").read_text())["cells"]
    outputs = [cell["outputs"] for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade")]
    assert len(outputs) == 7
    assert all("Deadlock" in str(output[0]["data"]["text/html"]) for output in outputs)
    assert "Deadlock" in room.page("bo").read_text()
    assert "ada" in (room.folder / "overview" / f"{ASSIGNMENT}.html").read_text()
    said = words(capsys.readouterr().out)
    assert "2 students, 2 to grade, 0 graded before; seed 7; a pool for tests" in said
    assert "sum 1/2 deadlock 1" in said
    assert "Nobody handed in collectives, hierarchical_all_reduce" in said


def test_only_what_is_new_or_changed_is_graded_again(room: Class) -> None:
    room.hand_in("ada", RIGHT)
    room.hand_in("bo", WRONG)
    first = room.grade()
    seed = room.record("ada")["seed"]
    room.hand_in("bo", RIGHT)
    room.hand_in("cleo", RIGHT)
    assert first == (0, ["ada", "bo"])
    assert room.grade() == (0, ["bo", "cleo"])
    assert room.score("bo") == (20, False)
    assert {room.record(student)["seed"] for student in ("ada", "bo", "cleo")} == {seed}
    assert room.grade() == (0, [])
    assert room.grade(force=True) == (0, ["ada", "bo", "cleo"])
    assert room.grade(seed=3) == (0, ["ada", "bo", "cleo"]), "a class has one seed"
    assert room.grade(seed=3) == (0, [])


def test_a_grader_that_was_changed_grades_anew(room: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    room.hand_in("ada", RIGHT)
    room.grade()
    monkeypatch.setattr(tasks, "version", lambda _: "another one")
    assert room.grade() == (0, ["ada"])
    assert room.grade() == (0, [])


def test_a_mistake_of_ours_costs_one_submission_only(
    room: Class, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def page(*_: object, learner: str, **__: object) -> str:
        return {"bo": "<p>"}[learner]

    def make(cells: Any, *rest: Any) -> Any:
        if any("# cleo's" in cell.source for cell in cells):
            raise ValueError("no way")
        return original(cells, *rest)

    original = whole.make
    room.hand_in("ada", RIGHT)
    room.hand_in("bo", RIGHT)
    room.hand_in("cleo", RIGHT + "# cleo's")
    monkeypatch.setattr(publish.feedback, "page", page)
    monkeypatch.setattr(whole, "make", make)
    assert room.grade() == (1, ["ada", "bo"])
    said = words(capsys.readouterr().out)
    assert "ada: graded, but not written: KeyError: 'ada'" in said
    assert "cleo: not graded: it cannot be read (ValueError: no way)" in said
    assert room.score("bo") == (20, False)
    monkeypatch.undo()
    assert room.grade() == (0, ["cleo"])


LOST = {
    "the graded notebook": lambda room: room.graded("ada").unlink(),
    "the page": lambda room: room.page("ada").unlink(),
    "the gradebook": lambda room: shutil.copy(room.folder / "empty.db", room.folder / "gradebook.db"),
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST.keys())
def test_what_is_lost_is_made_again_without_grading(room: Class, lose: Callable[[Class], object]) -> None:
    shutil.copy(room.folder / "gradebook.db", room.folder / "empty.db")
    room.hand_in("ada", RIGHT)
    room.grade()
    lose(room)
    assert room.grade() == (0, [])
    assert room.score("ada") == (20, False)
    assert room.graded("ada").is_file()
    assert room.page("ada").is_file()


def test_a_broken_notebook_takes_the_place_of_a_graded_one(room: Class) -> None:
    path = room.hand_in("ada", RIGHT)
    room.grade()
    path.write_bytes(b"{")
    assert room.grade() == (1, [])
    assert room.score("ada") == (0, True)
    assert not room.graded("ada").exists()
    room.hand_in("ada", RIGHT)
    assert room.grade() == (0, ["ada"])
    assert room.score("ada") == (20, False)


def test_a_notebook_that_was_not_handed_in_gives_no_points_as_with_nbgrader(room: Class) -> None:
    room.hand_in("ada", RIGHT)
    room.grade()
    assert room.score("ada", "collectives") == (0, False)


NAMES = ["o'brien", "a b", "ünï", "[red]x", "%s{0}", "-rf", "two\nlines", "\x1b[31mred", "‮gnirts", "*", "a" * 200]


def test_odd_names_of_students(room: Class, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        room.hand_in(name, RIGHT)
    os.mkdir(os.fsencode(room.folder / "submitted") + b"/\xff")
    os.mkdir(os.fsencode(room.folder / "submitted") + b"/\xff/" + ASSIGNMENT.encode())
    status, graded = room.grade()
    assert (status, graded) == (1, sorted(NAMES))
    said = capsys.readouterr().out
    assert not {c for c in said if not c.isprintable()} - {"\n"}, "a name reached the terminal as it is"
    assert "\\x1b[31mred" in said
    assert "[red]x" in said
    assert "\\xdcff: not graded: the folder's name is not UTF-8 text" in said
    for name in NAMES:
        assert room.score(name) == (20, False)
        assert room.page(name).is_file()
    assert room.grade() == (1, [])


def test_messages_reach_the_terminal_without_control_characters(
    room: Class, capsys: pytest.CaptureFixture[str]
) -> None:
    room.hand_in("ada", solved(RIGHT), "\x1b]0;owned\x07.ipynb")
    assert room.grade() == (0, ["ada"])
    said = capsys.readouterr().out
    assert not {c for c in said if not c.isprintable()} - {"\n"}
    assert "was handed in as \\x1b]0;owned\\x07.ipynb" in said


@pytest.mark.heavy
def test_a_worker_that_dies_twice_costs_its_submission_only(room: Class, capsys: pytest.CaptureFixture[str]) -> None:
    room.hand_in("ada", "def ring_all_reduce(tensor): ...  # dies")
    room.hand_in("bo", RIGHT)
    assert room.grade() == (1, ["ada", "bo"])
    assert room.score("ada") == (0, True)
    assert "ada: not graded: the worker was ended by SIGKILL" in words(capsys.readouterr().out)
    assert room.grade() == (1, ["ada"]), "the next run tries it again"


def test_late_work_and_what_is_beside_the_notebook(room: Class, capsys: pytest.CaptureFixture[str]) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{room.folder}/gradebook.db", "rankup") as book:
        book.update_or_create_assignment(ASSIGNMENT, duedate="2026-01-31 12:00:00 UTC")
    place = room.hand_in("ada", RIGHT).parent
    (place / "picture.png").write_bytes(b"png")
    (place / "secret").symlink_to("/etc/passwd")
    (place / "timestamp.txt").write_text("2026-02-01 12:00:00 UTC")
    room.hand_in("bo", RIGHT).with_name("timestamp.txt").write_text("yesterday \x00?")
    assert room.grade() == (0, ["ada", "bo"])
    assert room.record("ada")["late"]
    assert not room.record("bo")["late"]
    assert (room.graded("ada").parent / "picture.png").read_bytes() == b"png"
    assert not (room.graded("ada").parent / "secret").exists()
    (place / "timestamp.txt").write_text("2026-01-31 11:00:00 UTC")
    assert room.grade() == (0, [])
    assert not room.record("ada")["late"]


def test_late_work_loses_points_where_the_config_says_so(
    room: Class, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from nbgrader.api import Gradebook

    text = (ROOT / "nbgrader_config.py").read_text().replace("Path(__file__).parent", f"Path({str(ROOT)!r})")
    (tmp_path / "nbgrader_config.py").write_text(f"{text}\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    monkeypatch.chdir(tmp_path)
    with Gradebook(f"sqlite:///{room.folder}/gradebook.db", "rankup") as book:
        book.update_or_create_assignment(ASSIGNMENT, duedate="2026-01-31 12:00:00 UTC")
    room.hand_in("ada", RIGHT).with_name("timestamp.txt").write_text("2026-02-01 12:00:00 UTC")
    room.grade()
    with Gradebook(f"sqlite:///{room.folder}/gradebook.db", "rankup") as book:
        assert book.find_submission_notebook(NOTEBOOK, ASSIGNMENT, "ada").late_submission_penalty == 20


def test_points_given_by_hand_are_kept_and_to_be_looked_at_again(room: Class) -> None:
    from nbgrader.api import Gradebook

    room.hand_in("ada", WRONG)
    room.grade()
    with Gradebook(f"sqlite:///{room.folder}/gradebook.db", "rankup") as book:
        book.find_grade("check-sum", NOTEBOOK, ASSIGNMENT, "ada").manual_score = 3
        book.db.commit()
    room.grade()
    assert room.score("ada") == (3, False), "nothing changed, so nothing was written"
    room.grade(force=True)
    assert room.score("ada") == (3, True)


def test_a_locked_gradebook_costs_nothing(
    room: Class, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody holds the gradebook until the run gives up; the next run writes what is missing, and grades nothing."""
    import sqlite3

    import sqlalchemy
    from nbgrader import api

    room.hand_in("ada", RIGHT)
    room.hand_in("bo", WRONG)
    monkeypatch.setattr(
        api, "create_engine", lambda *a, **k: sqlalchemy.create_engine(*a, **k, connect_args={"timeout": 0.01})
    )

    holder = sqlite3.connect(room.folder / "gradebook.db")

    class Locking(InstantPool):
        def results(self, jobs: Sequence[Job]) -> Iterator[Done]:
            holder.execute("BEGIN EXCLUSIVE")
            return super().results(jobs)

    pool = Locking()
    assert room.grade(pool) == (1, ["ada", "bo"])
    holder.close()
    assert "graded, but not written: the gradebook cannot be used (database is locked)" in words(
        capsys.readouterr().out
    )
    assert room.grade() == (0, [])
    assert (room.score("ada"), room.score("bo")) == ((20, False), (0, False))


def test_a_full_disk_loses_nothing(
    room: Class, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes, mode: int = 0o644) -> None:
        if path.suffix in (".ipynb", ".html") and "overview" not in path.parts:
            raise OSError(28, "No space left on device")
        records.write_whole(path, data, mode)

    room.hand_in("ada", RIGHT)
    monkeypatch.setattr(publish, "write_whole", full)
    assert room.grade() == (1, ["ada"])
    assert "ada: graded, but not written: No space left on device" in words(capsys.readouterr().out)
    monkeypatch.undo()
    assert room.grade() == (0, [])
    assert room.score("ada") == (20, False)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an assignment nobody handed in": ({"assignment": "07-parallelism"}, "nobody has handed in '07-parallelism'"),
    "a path": ({"assignment": "../x"}, "'../x' is not the name of an assignment"),
    "no such engine": ({"engine": "spark"}, "no engine is called 'spark'; choose from local, ray"),
    "an address without a cluster": ({"address": "auto"}, "add --engine ray"),
    "a gradebook that is none": ({"db": "nonsense"}, "the gradebook cannot be opened"),
    "a gradebook of another kind": ({"db": "oracle://x/y"}, "the gradebook"),
    "a gradebook in no folder": ({"db": "sqlite:////no/such/folder/x.db"}, "the gradebook cannot be opened"),
    "an assignment that was not generated": (
        {"assignment": "09-x"},
        "has no assignment '09-x' (it has 06-collectives)",
    ),
}


@pytest.mark.parametrize(("wanted", "said"), BAD.values(), ids=BAD.keys())
def test_a_bad_request_is_one_sentence(
    room: Class, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, Any], said: str
) -> None:
    room.hand_in("ada", RIGHT)
    (room.folder / "submitted" / "ada" / "09-x").mkdir()
    monkeypatch.setenv("RANKUP_CLASS", str(room.folder))
    with pytest.raises(BadRequest) as raised:
        run.grade_class(run.Wanted(**{"assignment": ASSIGNMENT, "trust": True, **wanted}), InstantPool())
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_two_runs_at_once_on_one_class(room: Class) -> None:
    room.hand_in("ada", RIGHT)
    with course.alone(room.folder), pytest.raises(BadRequest, match="another run is grading this class"):
        room.grade()
    assert room.grade() == (0, ["ada"])


@pytest.mark.parametrize(
    ("mode", "trust", "graded"), [("full", False, True), ("none", False, False), ("none", True, True)]
)
def test_strangers_code_needs_full_isolation_or_trust(
    room: Class, monkeypatch: pytest.MonkeyPatch, mode: str, trust: bool, graded: bool
) -> None:
    room.hand_in("ada", RIGHT)
    monkeypatch.setenv("RANKUP_CLASS", str(room.folder))
    monkeypatch.delenv("RANKUP_TRUST_SUBMISSIONS", raising=False)
    monkeypatch.setattr(modes, "mode", lambda: mode)
    monkeypatch.setattr(modes, "why_not", lambda _: "" if mode == "full" else "no namespaces")
    wanted = run.Wanted(ASSIGNMENT, trust=trust)
    if graded:
        assert run.grade_class(wanted, InstantPool()) == 0
    else:
        with pytest.raises(BadRequest, match=r"cannot be isolated here \(no namespaces\); `rankup doctor`"):
            run.grade_class(wanted, InstantPool())
