"""The table of labs and `make labs`: what a lab ends with, what is kept of it, and environments of their own."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import environments, labs
from tools.environments import Environment

RUNS = (
    'import json; print("words"); print(json.dumps({"figures": {"sum": 6, "s": 0.123456}, "versions": {"X": "1.2"}}))'
)
ABSENT = 'import sys; print("X is not installed: get it", file=sys.stderr); sys.exit(2)'
FAILS = 'raise ValueError("two sums differ")'


def lab(name: str, **more: object) -> labs.Lab:
    return labs.Lab(name, name, "06", "Sums.", "the sum is {sum}", seconds=1, **more)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Labs that run, are absent and fail; nothing is written outside of the folder."""
    monkeypatch.setattr(labs, "PROGRAMS", tmp_path)
    monkeypatch.setattr(environments, "FOLDER", tmp_path / "build")
    for name, text in {"runs": RUNS, "absent": ABSENT, "fails": FAILS, "silent": "", "lies": "print('{}')"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def test_every_row_has_its_program_and_a_name_of_its_own() -> None:
    assert len({each.name for each in labs.LABS}) == len(labs.LABS)
    assert [each.name for each in labs.LABS if not (labs.PROGRAMS / f"{each.program}.py").exists()] == []
    assert [each.name for each in labs.LABS if not list((labs.ROOT / "course").glob(f"{each.chapter}-*.ipynb"))] == []


def test_what_is_kept_of_a_lab_fits_its_row() -> None:
    rows: Mapping[str, labs.Lab] = {each.name: each for each in labs.LABS}
    for path in labs.RESULTS.glob("*.json"):
        kept = json.loads(path.read_text())
        assert kept["lab"] == path.stem
        assert rows[path.stem].outcome.format_map(kept["figures"]), path.name
        assert kept["date"]
        assert kept["versions"]
        assert all(len(row) == len(kept["head"] or ("what", "seen")) for row in kept["rows"]), path.name


@pytest.mark.parametrize(
    ("name", "state", "said"),
    [
        ("runs", "ran", "the sum is 6"),
        ("absent", "absent", "X is not installed: get it"),
        ("fails", "failed", "ValueError: two sums differ"),
        ("silent", "failed", "ValueError: the last line that it printed is no JSON object with figures"),
        ("lies", "failed", "ValueError: the last line that it printed is no JSON object with figures"),
    ],
)
def test_how_a_lab_ended_is_one_sentence(folder: Path, name: str, state: str, said: str) -> None:
    outcome = labs.run(lab(name))
    assert (outcome.state, outcome.said) == (state, said)


def test_date_versions_and_figures_are_kept(folder: Path) -> None:
    labs.keep(labs.run(lab("runs", versions=("rich",))), folder)
    kept = json.loads((folder / "runs.json").read_text())
    assert kept["outcome"] == "the sum is 6"
    assert kept["figures"] == {"sum": 6, "s": 0.1235}
    assert kept["versions"].keys() == {"Python", "rich", "X"}
    assert kept["date"].count("-") == 2


@pytest.mark.parametrize(
    ("arguments", "status", "kept"),
    [
        (["runs"], 0, ["runs"]),
        (["runs", "absent"], 0, ["runs"]),
        (["fails", "runs"], 1, ["runs"]),
        (["--fast", "absent", "slow"], 0, []),
    ],
)
def test_only_a_lab_that_could_be_run_and_failed_is_a_failure(
    folder: Path, arguments: list[str], status: int, kept: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    slow = labs.Lab("slow", "fails", "06", "Slow.", "", seconds=59, own=Environment(("x",), seconds=1))
    table = [*map(lab, ("runs", "absent", "fails")), slow]
    seen: list[str] = []
    assert labs.main(arguments, table, lambda outcome: seen.append(outcome.lab.name)) == status
    assert seen == kept
    told = capsys.readouterr().out
    assert ("the sum is 6" in told, "FAILED: " in told) == (bool(kept), bool(status))
    assert ("not run here: X is not installed" in told) == ("absent" in arguments)


def test_a_name_that_is_no_labs_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        labs.main(["spark"], [lab("runs")])
    assert ended.value.code == 2
    assert "no lab is called spark; there are runs" in capsys.readouterr().err


def wheel(folder: Path) -> Path:
    """A distribution of one module, which pip installs without a package index."""
    path = folder / "tiny_lab-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tiny_lab.py", "SUM = 6\n")
        file.writestr("tiny_lab-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-lab\nVersion: 1.0\n")
        file.writestr("tiny_lab-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("tiny_lab-1.0.dist-info/RECORD", "")
    return path


@pytest.mark.heavy
def test_a_lab_has_an_environment_of_its_own_and_sees_the_courses_packages(folder: Path) -> None:
    own = Environment((str(wheel(folder)),), 5, course=True, settings=(("PIP_NO_INDEX", "1"),))
    one = lab("inside", own=own, versions=("tiny-lab", "torch"))
    (folder / "inside.py").write_text(
        "import importlib.util, json, sys, tiny_lab; assert importlib.util.find_spec('torch');"
        "print(json.dumps({'figures': {'sum': tiny_lab.SUM, 'prefix': sys.prefix}}))"
    )
    assert not one.is_set_up
    outcome = labs.run(one)
    assert (outcome.state, outcome.said) == ("ran", "the sum is 6")
    assert outcome.figures["prefix"] == str(folder / "build" / "inside") != sys.prefix
    assert outcome.versions["tiny-lab"] == "1.0"
    assert one.is_set_up
    assert sorted(path.name for path in environments.FOLDER.iterdir()) == ["inside", "inside.lock", "inside.log"]
    assert not lab("inside", own=Environment((str(wheel(folder)),), 5)).is_set_up  # the row was changed since


@pytest.mark.heavy
def test_an_environment_that_cannot_be_set_up_is_one_sentence(folder: Path) -> None:
    own = Environment(("no-such-engine==1",), 5, settings=(("PIP_NO_INDEX", "1"),))
    outcome = labs.run(lab("inside", own=own))
    assert outcome.state == "absent"
    assert outcome.said == (
        "pip could not install no-such-engine==1: No matching distribution found for no-such-engine==1."
    )
    assert sorted(path.name for path in environments.FOLDER.iterdir()) == ["inside.lock", "inside.log"]
