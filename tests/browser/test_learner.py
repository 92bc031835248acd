"""A learner's way through JupyterLab, and a teacher's through formgrader, in a real browser: `make test-browser`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jupyter
import pytest
from jupyter import MINUTES, Lab, picture
from playwright.sync_api import Page, expect

CHAPTERS = [path.stem for number in ("00", "06") for path in (jupyter.ROOT / "course").glob(f"{number}-*.ipynb")]
SUBMISSIONS = jupyter.ROOT / "demo" / "submissions"
COPY = "work/06-collectives/ring_all_reduce.ipynb"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = jupyter.copy_of_the_course(tmp_path_factory.mktemp("learner") / "rankup")
    with jupyter.opened(home) as running:
        yield running


@pytest.fixture
def started(lab: Lab) -> Lab:
    """The exercise as `rankup start` leaves it, whatever another test has written into it."""
    rankup(lab, "start", "ring_all_reduce", "--fresh")
    return lab


def rankup(lab: Lab, *arguments: str) -> str:
    return python(lab, "grader.cli", *arguments)


def python(lab: Lab, module: str, *arguments: str) -> str:
    """What a program prints that is run in the learner's folder."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, cwd=lab.home, env=jupyter.environment(lab.home), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def source(who: str) -> str:
    return (SUBMISSIONS / f"{who}.py").read_text().rstrip()


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_runs_all_its_cells(lab: Lab, page: Page, chapter: str) -> None:
    panel = jupyter.open_notebook(page, lab, f"course/{chapter}.ipynb")
    picture(page, f"{chapter}-opened")
    jupyter.run_all(page, panel)
    assert jupyter.errors(panel).all_inner_texts() == []
    assert panel.locator('[data-mime-type="application/vnd.jupyter.stderr"]').all_inner_texts() == []
    drawn = panel.locator(".jp-OutputArea-output svg")
    expect(drawn.first).to_be_visible()
    for number in range(min(drawn.count(), 3)):
        drawn.nth(number).scroll_into_view_if_needed()
        picture(page, f"{chapter}-picture-{number + 1}")
    jupyter.menu(page, "Settings", "Theme", "JupyterLab Dark")
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "false", timeout=MINUTES)
    expect(page.locator("#jupyterlab-splash")).to_have_count(0, timeout=MINUTES)
    drawn.first.scroll_into_view_if_needed()
    picture(page, f"{chapter}-dark")
    jupyter.menu(page, "Settings", "Theme", "JupyterLab Light")
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "true", timeout=MINUTES)


def test_an_exercise_is_started_in_a_terminal_of_the_lab(lab: Lab, page: Page) -> None:
    page.goto(lab.url("lab/tree/course"))
    jupyter.menu(page, "File", "New", "Terminal")
    screen = page.locator(".jp-Terminal:visible .xterm-screen")
    expect(screen).to_be_visible(timeout=MINUTES)
    screen.click()
    page.keyboard.type("rankup start mapreduce && touch started\n")
    page.get_by_role("button", name="home").or_(page.locator(".jp-BreadCrumbs-home")).first.click()
    expect(page.locator(".jp-DirListing-item", has_text="started")).to_be_visible(timeout=MINUTES)
    picture(page, "start-in-a-terminal")
    assert (lab.home / "work" / "04-mapreduce" / "mapreduce.ipynb").exists()
    expect(page.locator(".Toastify__toast")).to_have_count(0)  # nobody is asked whether there should be news


def test_a_wrong_solution_is_told_and_drawn(started: Lab, page: Page) -> None:
    panel = jupyter.open_notebook(page, started, COPY)
    picture(page, "exercise-opened")
    solution = jupyter.cell(panel, "YOUR CODE HERE")
    jupyter.write(solution, source("dmitri"))
    solution = jupyter.cell(panel, "def ring_all_reduce")
    jupyter.run(solution)
    picture(page, "exercise-wrong-typed")
    check = jupyter.cell(panel, 'check(ring_all_reduce, "sum")')
    jupyter.run(check)
    told = check.locator(".jp-OutputArea")
    expect(told).to_contain_text("0 of 4 points")
    expect(told).to_contain_text(re.compile(r"Deadlock, a cycle of \d ranks: rank 0 waits to send"))
    drawing = told.locator("svg").first
    expect(drawing).to_be_visible()
    drawing.scroll_into_view_if_needed()
    picture(page, "exercise-wrong")
    inside, around = drawing.bounding_box(), told.bounding_box()
    assert inside
    assert around
    assert inside["x"] + inside["width"] <= around["x"] + around["width"] + 1


def test_a_right_solution_has_full_marks_and_validates(started: Lab, page: Page) -> None:
    panel = jupyter.open_notebook(page, started, COPY)
    jupyter.write(jupyter.cell(panel, "YOUR CODE HERE"), source("ada"))
    jupyter.run_all(page, panel)
    assert jupyter.errors(panel).all_inner_texts() == []
    for name in ("sum", "any_length", "any_layout", "bytes", "steps"):
        told = jupyter.cell(panel, f'check(ring_all_reduce, "{name}")').locator(".jp-OutputArea")
        expect(told).to_contain_text(re.compile(r"(\d+) of \1 points"))
    played = jupyter.cell(panel, "from grader import play").locator(".jp-OutputArea")
    played.get_by_role("button", name="play from here").click()
    expect(played.locator(".player")).to_contain_text("returned", timeout=MINUTES)
    jupyter.cell(panel, 'check(ring_all_reduce, "bytes")').scroll_into_view_if_needed()
    picture(page, "exercise-right")
    panel.get_by_text("Validate", exact=True).click()
    dialog = page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("Success! Your notebook passes all the tests.", timeout=5 * MINUTES)
    picture(page, "validated")


def test_formgrader_lists_the_assignment_and_shows_a_grade(lab: Lab, page: Page) -> None:
    python(lab, "nbgrader", "generate_assignment", "06-collectives", "--force")
    folder = lab.home / "class" / "submitted" / "chen" / "06-collectives"
    folder.mkdir(parents=True)
    hand_in(lab.home / "exercises" / "06-collectives" / "ring_all_reduce.ipynb", folder, source("chen"))
    rankup(lab, "class", "grade", "06-collectives", "--trust-submissions")
    page.goto(lab.url("lab/tree/course"))
    jupyter.menu(page, "Nbgrader", "Formgrader")
    frame = page.frame_locator(".jp-IFrame iframe, iframe")
    row = frame.locator("tr", has_text="06-collectives")
    expect(row).to_be_visible(timeout=MINUTES)
    picture(page, "formgrader-assignments")
    page.goto(lab.url("formgrader/gradebook/06-collectives/ring_all_reduce"))
    page.get_by_role("link", name="Submission #1").click()
    expect(page.locator("body")).to_contain_text("rank 0 sent", timeout=MINUTES)
    drawing = page.locator("svg:visible").first
    expect(drawing).to_be_visible()
    drawing.scroll_into_view_if_needed()
    picture(page, "formgrader-submission")


def hand_in(released: Path, folder: Path, solution: str) -> None:
    import nbformat

    notebook = nbformat.read(released, as_version=4)
    cell = next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution"))
    cell.source = solution
    nbformat.write(notebook, folder / released.name)
