"""The picture of a run, played and stepped in a page of its own, and as a notebook's output in a dark theme."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from grader.classroom import report
from grader.trace import dark, diagram
from grader.trace import page as pages

sys.path.append(str(Path(__file__).parent.parent / "trace"))
from runs import RUNS


def test_a_run_is_stepped_by_keyboard_and_played(page: Page, tmp_path: Path) -> None:
    errors: list[object] = []
    page.on("pageerror", errors.append)
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


@pytest.mark.parametrize(("theme", "paper"), [("true", "rgb(255, 255, 255)"), ("false", "rgb(23, 28, 34)")])
def test_an_output_follows_the_theme(page: Page, theme: str, paper: str) -> None:
    drawn = diagram.svg(RUNS["ring of 4"]()[0], "t")
    shown = report.output_html(dark.framed(drawn)) * 2  # two cells
    page.set_content(f"<body data-jp-theme-light={theme}>{shown}</body>")
    assert page.locator("svg > rect").first.evaluate("each => getComputedStyle(each).fill") == paper
    expect(page.get_by_role("slider")).to_have_count(2)
