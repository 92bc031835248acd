"""The parts of a feedback page: diagrams, values side by side, the listing, what to read, what kinds mean."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from sample_pages import DEADLOCK, PASSED, ROOT, SOURCE, SVG, WRONG, assert_safe, lost, verdict

from grader import catalog, grading, registry
from grader.classroom.pages import feedback, figures, kinds, values
from grader.classroom.pages.listing import open_lines
from grader.classroom.pages.reading import headings, reading
from grader.ranks.engines import Engines
from grader.submission import Submission
from grader.verdict import KINDS, Diagnosis


@pytest.mark.parametrize(
    "svg",
    [
        None,
        "",
        "no svg",
        "<svg>",
        "<p>x</p>",
        SVG.replace("<g>", "<script>alert(1)</script><g>"),
        SVG.replace("<g>", '<g onclick="alert(1)">'),
        SVG.replace("<g>", '<a href="http://example.org"><g></g></a><g>'),
        SVG.replace("<g>", '<g style="fill:url(http://example.org)">'),
        SVG.replace("<g>", '<g fill="url(http://example.org/x)">'),
        SVG.replace("<g>", "<foreignObject/><g>"),
        SVG.replace("<g>", '<image href="data:image/png;base64,"/><g>'),
        '<!DOCTYPE svg [<!ENTITY a "b">]>' + SVG,
    ],
)
def test_what_is_no_mere_drawing_is_left_out(svg: str | None) -> None:
    assert figures.figure(svg) is None


def test_two_pictures_on_a_page_share_no_name() -> None:
    checks = [lost("sum", DEADLOCK), lost("bytes", WRONG), PASSED, replace(PASSED, name="steps")]
    assert_safe(feedback.page(verdict(*checks), SOURCE))


def test_the_runs_messages_are_found_by_line() -> None:
    figure = figures.figure(SVG)
    assert figure is not None
    assert {line: talk.words for line, talk in figure.talk().items()} == {
        6: "sends 1 message of 24 bytes",
        7: "receives 1 message",
    }


def test_a_real_picture_tells_which_lines_talk(engines: Engines) -> None:
    source = (ROOT / "demo" / "submissions" / "chen.py").read_text()
    result = grading.grade(registry.find("ring_all_reduce"), Submission(source, "chen.py"), engines, 7)
    figure = figures.figure(result.check("bytes").diagram)
    assert figure is not None
    assert figure.follows
    assert {line for line, talk in figure.talk().items() if talk.sent} == {18, 22}


def test_the_pictures_that_a_page_takes_are_well_formed_xml() -> None:
    figure = figures.figure(SVG)
    assert figure is not None
    ElementTree.fromstring(figure.html(1))


@pytest.mark.parametrize(
    ("expected", "got", "rows"),
    [
        ("[4, 9, 2]", "[4, 5 (rank 0 alone), 2]", 3),
        ("[[1.5, 2.0], [3.0, 4.0]]", "[[1.5, 2.0], [3.0, 9.0 (wrong)]]", 4),
        ("element 7 = 1.5", "element 7 = -2.5", 1),
        ("element [0, 1] = 1.5", "element [0, 1] = nan", 1),
        ("[1, 2]", "[1, 2, 3]", 0),
        ("[1, 2", "[1, 2]", 0),
        ("at most 3 rounds", "4 rounds", 0),
        ("[1]", "['a', (1, 2)]", 0),
    ],
)
def test_values_are_set_side_by_side(expected: str, got: str, rows: int) -> None:
    found = Diagnosis("wrong_result", "x", expected=expected, got=got)
    assert [each["differs"] for each in values.elements(found)].count(True) == bool(rows)
    text = feedback.page(verdict(lost("sum", found)), SOURCE)
    assert text.count("<tr") == (rows + 1 if rows else 0)
    assert text.count('<tr class="bad">') == (1 if rows else 0)
    assert ("<dl" in text) == (not rows)


@pytest.mark.parametrize(("name", "heading"), headings())
def test_what_to_read_is_a_heading_of_the_chapter(name: str, heading: str) -> None:
    notebook = catalog.chapter_notebook(registry.find(name).chapter)
    assert notebook is not None
    cells = json.loads(notebook.read_text())["cells"]
    lines = [line for cell in cells if cell["cell_type"] == "markdown" for line in "".join(cell["source"]).splitlines()]
    assert heading in [line.lstrip("#").strip() for line in lines if line.startswith("#")]


@pytest.mark.parametrize("name", registry.names())
def test_every_exercise_has_something_to_read(name: str) -> None:
    found = reading(name, "", "crash")
    assert found is not None
    assert found.title


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_is_explained_in_a_line(kind: str) -> None:
    assert 20 < len(kinds.meaning(kind)) < 130
    assert kinds.title(kind)


def test_a_short_source_is_shown_whole_and_a_long_one_around_its_marks() -> None:
    assert open_lines(40, [3]) == set(range(1, 41))
    assert open_lines(1000, [3, 500]) == {*range(1, 9), *range(495, 506)}
