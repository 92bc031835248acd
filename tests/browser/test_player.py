"""The picture of a run, played and stepped in a page of its own, and as a notebook's output in a dark theme."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest
from jupyter import picture
from playwright.sync_api import Page, expect

from courselib import commit
from courselib.cluster import cluster
from grader.classroom import live, report
from grader.classroom.pages import feedback
from grader.trace import dark, diagram, moments, storyboard
from grader.trace import page as pages
from grader.verdict import CheckResult, Diagnosis, Verdict

sys.path.append(str(Path(__file__).parent.parent / "trace"))
from runs import RUNS
from stories import STORIES


def test_a_run_is_stepped_by_keyboard_and_played(page: Page, tmp_path: Path) -> None:
    errors: list[object] = []
    page.on("pageerror", lambda error: errors.append(error))
    trace, cycle, marks = RUNS["pipeline"]()
    (tmp_path / "run.html").write_text(pages.html(trace, "A pipeline", "", cycle, marks))
    page.goto((tmp_path / "run.html").as_uri())
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("ArrowRight")
    now = page.locator(".player")
    expect(now).to_contain_text("2 ms")
    expect(now).to_contain_text("0 → 1: 65,536 bytes")
    expect(now).to_contain_text("sends to rank 1 (line 7)")
    page.keyboard.press("End")
    expect(now).to_contain_text("20.5 ms")
    page.get_by_role("button", name="play from here").click()  # from the end: from the beginning again
    expect(now).to_contain_text("2 ms")
    page.get_by_role("button", name="one step back").click()
    expect(page.get_by_role("button", name="play from here")).to_have_text("play")
    assert errors == []


def test_a_story_of_nodes_is_stepped(page: Page) -> None:
    page.set_content(report.output_html(dark.framed(storyboard.svg(STORIES["partition"]()))))
    page.get_by_role("slider").focus()
    page.keyboard.press("End")
    expect(page.locator(".player dt").first).to_be_visible()
    line = page.locator("svg > path").last
    assert "V" in str(line.get_attribute("d"))
    picture(page, "story-at-its-end")


def test_the_page_of_watch_follows_and_is_played(page: Page) -> None:
    trace, cycle, marks = RUNS["deadlock of 4"]()
    diagnosis = Diagnosis("deadlock", "A cycle of 4 ranks.")
    errors: list[object] = []
    page.on("pageerror", lambda error: errors.append(error))

    def graded(title: str) -> str:
        drawn = diagram.svg(trace, title, "", cycle, marks)
        check = CheckResult("sum", "The sum", 0, 4, "fail", diagnosis, drawn)
        verdict = Verdict("ring_all_reduce", (check,), 1, 0.5, ("sim",))
        return feedback.page(verdict, "x = 1", scripts=[moments.player(), live.SCRIPT])

    with contextlib.closing(live.Live()) as served:
        served.show(graded("First"))
        page.goto(served.url)
        page.get_by_role("slider").focus()
        page.keyboard.press("End")
        expect(page.locator(".player")).to_contain_text("waits forever to send to rank 0 (line 16)")
        page.emulate_media(color_scheme="dark")
        picture(page, "watched-dark")
        served.show(graded("Second"))
        expect(page.locator("svg.picture")).to_contain_text("Second")
        assert errors == []
    expect(page.get_by_role("status").last).to_contain_text("rankup watch has ended")


@pytest.mark.parametrize(("theme", "paper"), [("true", "rgb(255, 255, 255)"), ("false", "rgb(23, 28, 34)")])
def test_an_output_follows_the_theme(page: Page, theme: str, paper: str) -> None:
    drawn = diagram.svg(RUNS["ring of 4"]()[0], "t")
    shown = report.output_html(dark.framed(drawn)) * 2  # two cells
    page.set_content(f"<body data-jp-theme-light={theme}>{shown}</body>")
    assert page.locator("svg > rect").first.evaluate("each => getComputedStyle(each).fill") == paper
    expect(page.get_by_role("slider")).to_have_count(2)


def test_the_run_of_a_cluster_is_stepped_in_a_chapter(page: Page) -> None:
    run = cluster(commit.KINDS, commit.banks("A B"), {"client": [("coord", {"type": "begin"})]}, until=1.0)
    page.set_content(run._repr_html_())
    page.get_by_role("slider").press("End")
    expect(page.locator(".player")).to_contain_text("A")
    expect(page.locator(".player")).to_contain_text("committed")
