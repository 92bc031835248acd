"""What a reader can move, in JupyterLab with a kernel and on a page that is opened as a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import jupyter
import nbformat
import pytest
from jupyter import Lab
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Page, expect

from courselib import ask

sys.path.append(str(jupyter.ROOT / "site"))
import conf

NAME = "predict-ring-bytes"
CELLS = [f"from courselib.ask import predict\npredict({NAME!r})", "2 * 3 * 256"]
FIGURES = [
    "from courselib import figures\n(reduced := figures.collectives())",
    "(piped := figures.pipeline())",
    "(shards := figures.sharding())",
    "(saved := figures.goodput())",
    "(planned := figures.plans())",
    "moved = [row[:3] for row in piped.own[3:]]\n"
    "print(reduced.ranks, piped.schedule, moved, shards.ranks, round(saved.interval), planned.recompute)",
    "reduced.ranks = 2",
]
OWN = """
from courselib import figures
from grader.nodes import Node

class Pass(Node):
    def on_start(self):
        self.got = 0
        if self.id == "n1":
            self.send("n2", {"type": "token"})

    def on_message(self, src, body):
        self.got += 1
        self.send(src, {"type": "token", "number": 1 / (2 - self.got)})

figures.steps(Pass, 2, record=2)
"""
SYSTEMS = [
    OWN.strip(),
    "(served := figures.latency())",
    "(behind := figures.staleness())",
    "(split := figures.partition())",
    "figures.two_phase_commit(impatient=True)",
    "print(served.batch, behind.workers, split.since, split.until)",
]
SPLIT = (
    "client asks", "client to coord, begin: arrives", "coord to A, prepare: arrives", "coord to B, prepare: arrives",
    "A to coord, vote, yes true: arrives", "B to coord, vote, yes true: arrives", "coord to A, commit: arrives",
    "B: timer doubt",
)  # fmt: skip
TOKENS = ("n1 to n2, token: arrives", "n2 to n1, token, number 1: arrives", "n1 to n2, token, number 1: arrives")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = jupyter.copy_of_the_course(tmp_path_factory.mktemp("widgets") / "rankup")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for name, sources in (("asks", CELLS), ("figures", FIGURES), ("systems", SYSTEMS)):
        cells = [new_code_cell(each) for each in sources]
        nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), home / f"{name}.ipynb")
    with jupyter.opened(home) as running:
        yield running


def test_a_prediction_is_explained_when_the_next_cell_has_run(lab: Lab, page: Page) -> None:
    panel = jupyter.open_notebook(page, lab, "asks.ipynb")
    jupyter.run(jupyter.cell(panel, "predict"))
    asked = panel.locator(".rankup-ask")
    asked.get_by_label("your prediction").fill("2048")
    page.keyboard.press("Enter")
    expect(asked).to_contain_text("Now run the next cell.")
    jupyter.run(jupyter.cell(panel, "2 * 3 * 256"))
    expect(asked).to_contain_text("Not as you predicted.")
    expect(asked).to_contain_text("It is 1,536 bytes.")
    expect(asked).to_contain_text("rankup quiz will ask this again.")
    jupyter.picture(page, "a-prediction")


def test_figures_and_their_kernel_share_what_is_moved(lab: Lab, page: Page) -> None:
    panel = jupyter.open_notebook(page, lab, "figures.ipynb")
    jupyter.run_all(page, panel)
    assert jupyter.errors(panel).all_inner_texts() == []
    shown = panel.locator(".rankup-figure")
    expect(shown).to_have_count(5)
    expect(shown.nth(0).locator(".said")).to_contain_text("on 2 ranks")  # as the last cell has set it
    shown.nth(0).get_by_label("ranks N").focus()
    page.keyboard.press("ArrowRight")
    expect(shown.nth(0).locator(".said")).to_contain_text("on 4 ranks")
    shown.nth(1).locator('[data-id="0:F0"]').focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    expect(shown.nth(1).locator(".said")).to_contain_text("Not there: on each stage micro-batch 0 goes forward (F)")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowLeft")
    expect(shown.nth(1).locator(".said")).to_contain_text("your own")
    shown.nth(2).get_by_label("ranks N").press("ArrowRight")
    shown.nth(3).get_by_role("button", name="T = √(2CM)").press("Enter")
    shown.nth(4).get_by_label("recompute each layer").press("Space")
    asked = jupyter.cell(panel, "print")
    jupyter.run(asked)
    expect(asked.locator(".jp-OutputArea")).to_have_text("4 own [['F0', 'B0', 'F1']] 16 1140 False\n")
    for theme in ("Dark", "Light"):
        jupyter.menu(page, "Settings", "Theme", f"JupyterLab {theme}")
        expect(page.locator("body")).to_have_attribute("data-jp-theme-light", str(theme == "Light").lower())
        expect(page.locator("#jupyterlab-splash")).to_have_count(0)
        for number in range(5):
            shown.nth(number).scroll_into_view_if_needed()
            jupyter.picture(page, f"figure-{number}-{theme.lower()}")


def test_a_kernel_goes_on_where_nothing_is_recorded(lab: Lab, page: Page) -> None:
    panel = jupyter.open_notebook(page, lab, "systems.ipynb")
    jupyter.run_all(page, panel)
    assert jupyter.errors(panel).all_inner_texts() == []
    shown = panel.locator(".rankup-figure")
    expect(shown).to_have_count(5)
    own = shown.nth(0)
    for label in TOKENS:
        own.get_by_label(label).press("Enter")
    expect(own.locator(".bad")).to_contain_text("n2 raised ZeroDivisionError")
    own.get_by_label("n1: crash").click()
    expect(own.locator(".told")).to_have_text("n1 crashes.")
    shown.nth(1).get_by_label("batch size limit").press("ArrowRight")
    shown.nth(2).get_by_label("workers").press("ArrowLeft")
    begins = shown.nth(3).get_by_role("slider", name="begins")
    begins.focus()
    page.keyboard.press("PageUp")
    expect(begins).to_have_attribute("aria-valuenow", "1.3")
    asked = jupyter.cell(panel, "print")
    jupyter.run(asked)
    expect(asked.locator(".jp-OutputArea")).to_have_text("32 4 1.3 3.4\n")
    for label in SPLIT:
        shown.nth(4).get_by_label(label).click()
    expect(shown.nth(4).locator(".bad")).to_have_text("A committed, B aborted")
    for number in range(5):
        shown.nth(number).scroll_into_view_if_needed()
        jupyter.picture(page, f"system-{number}")


def test_a_page_hides_what_came_out_until_it_is_predicted(page: Page, tmp_path: Path) -> None:
    conf._widgets(SimpleNamespace(outdir=tmp_path))
    shown = ask.predict(NAME).page_html()
    (tmp_path / "page.html").write_text(
        '<meta charset="utf-8"><script src="_static/all-widgets.js"></script>'
        f'<div class="cell">{shown}</div><div class="cell"><div class="cell_output">1536 came out</div></div>'
    )
    errors: list[object] = []
    page.on("pageerror", lambda error: errors.append(error))
    page.goto((tmp_path / "page.html").as_uri())
    result = page.get_by_text("1536 came out")
    expect(result).to_be_hidden()
    page.get_by_label("your prediction").fill("2*3*1024/4 bytes")
    page.keyboard.press("Enter")
    expect(result).to_be_visible()
    expect(page.locator(".rankup-ask")).to_contain_text("As you predicted.")
    assert errors == []
