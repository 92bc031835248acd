"""What the course holds is kept, and found out anew when a file has changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grader import progress
from grader.standing import known

IMPORTED = """
import sys
from grader.standing import gather
gather.gather()
print(sorted({"numpy", "pydantic", "yaml", "grader.registry"} & set(sys.modules)))
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path))
    return tmp_path


def test_what_is_kept_is_what_was_found_out(data: Path) -> None:
    assert known.known() == known.known()
    assert [each.name for each in data.iterdir()] == ["course.json"]


def test_where_nothing_has_changed_nothing_is_imported(data: Path) -> None:
    known.known()
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("how", ["a deck", "a pack", "broken", "older"])
def test_it_is_found_out_anew(data: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    pack = data / "packs"
    pack.mkdir()
    monkeypatch.setenv("RANKUP_PACKS", str(pack))
    before = known.known()
    file = data / "course.json"
    found: list[int] = []
    find_out = known._find_out
    monkeypatch.setattr(known, "_find_out", lambda: found.append(1) or find_out())
    assert known.known() == before
    assert not found
    if how == "a deck":
        (data / "cards").mkdir()
        (data / "cards" / "mine.md").write_text("")
    elif how == "a pack":
        (pack / "more.dist-info").mkdir()
    else:
        file.write_text("{" if how == "broken" else file.read_text().replace('"decks"', '"packs"'))
    assert known.known() == before
    assert found


def test_a_folder_that_cannot_be_written_is_no_trouble(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / "file").write_text("")
    monkeypatch.setattr(progress, "data_folder", lambda: data / "file" / "x")
    assert known.known().exercises
