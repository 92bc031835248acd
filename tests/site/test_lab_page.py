"""The site's page of labs: each lab with what is kept of it, or that nothing is."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tools import labs

ROOT = Path(__file__).parent.parent.parent
COURSE = ROOT / "course"
LAB = labs.Lab("sums", "servers", "06", "Sums.", "the sum is {sum}", seconds=150, programs="an abacus")
KEPT = {
    "lab": "sums", "date": "2026-11-27", "outcome": "the sum is 6", "versions": {"X": "1.2"}, "figures": {"sum": 6},
    "head": [], "rows": [["first", "1 < 2 | 3"], ["  then", "k[text]"]],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "site"))


def test_a_lab_is_shown_with_date_versions_and_rows(tmp_path: Path) -> None:
    import lab_page

    assert "No result is kept yet." in lab_page.page(COURSE, [LAB], tmp_path)
    (tmp_path / "sums.json").write_text(json.dumps(KEPT))
    text = lab_page.page(COURSE, [LAB], tmp_path)
    assert "No result" not in text
    assert "| [sums](#sums) | The sum is 6. | 2026\N{NON-BREAKING HYPHEN}11\N{NON-BREAKING HYPHEN}27 |" in text
    assert "**2026-11-27**, with X 1.2: the sum is 6." in text
    assert "make labs LABS=sums    # about 2 minutes" in text
    assert "It needs an abacus." in text
    assert r"| first | 1 \< 2 \| 3 |" in text
    assert r"| – then | k\[text\] |" in text


def test_the_page_shows_all_that_is_kept_and_its_links_lead_somewhere() -> None:
    import lab_page

    text = lab_page.page(COURSE)
    for path in labs.RESULTS.glob("*.json"):
        assert json.loads(path.read_text())["date"] in text.partition(f"## {path.stem}\n")[2]
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(links) == 2 * len(labs.LABS)
    assert [link for link in links if not (COURSE / "labs" / link).exists()] == []


@pytest.mark.heavy
def test_the_page_is_in_the_sites_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(COURSE / "lib")])
    import pages

    found = pages.gather(ROOT / "build" / "nothing")
    assert "course/labs/index" in str(found["index.md"])
    assert "# Labs" in str(found["course/labs/index.md"])
    assert "course/labs/mpi_collectives.py" in found
