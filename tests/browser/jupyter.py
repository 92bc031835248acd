"""JupyterLab as `rankup lab` opens it, in a copy of the learner's folder, and what a person does in its pages."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from playwright.sync_api import Locator, Page, expect

ROOT = Path(__file__).parent.parent.parent
PICTURES = ROOT / "build" / "browser"
MINUTES = 60_000  # in Playwright's milliseconds
_FOLDERS = ("course", "exercises", "solutions", "grader")
_RUN_MARK = "RANKUP_BROWSER_RUN"  # in the environment of all that a run starts


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: the learner's folder, and the address and token that it printed."""

    home: Path
    address: str
    token: str

    def url(self, path: str) -> str:
        return f"{self.address}/{path}?token={self.token}&reset"  # without what another page had open


def copy_of_the_course(home: Path) -> Path:
    """What a learner has who took the repository; nothing of a test is written in the checkout."""
    ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, home / name, ignore=ignored)
    shutil.copy(ROOT / "nbgrader_config.py", home)
    return home


def environment(home: Path) -> dict[str, str]:
    """Of every command in that copy: its package, and settings and progress of its own."""
    own = home.parent
    settings = own / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True, exist_ok=True)
    # cells out of sight stay in the page, where they can be read
    (settings / "tracker.jupyterlab-settings").write_text(json.dumps({"windowingMode": "none"}))
    return {
        **os.environ,
        "PYTHONPATH": str(home),
        "RANKUP_DATA": str(own / "data"),
        "RANKUP_TRUST_SUBMISSIONS": "1",
        "JUPYTERLAB_SETTINGS_DIR": str(own / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(own / "workspaces"),
        "JUPYTER_RUNTIME_DIR": str(own / "runtime"),
        "JUPYTER_CONFIG_DIR": str(own / "config"),
        "BROWSER": "true",  # the program that does nothing: our browser goes to the address that is printed
        _RUN_MARK: str(own),
    }


@contextmanager
def opened(home: Path, *arguments: str) -> Iterator[Lab]:
    """`rankup lab`, until it says where it is; at its end all that it started must have ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "grader.cli", "lab", *arguments],
        cwd=home,
        env=environment(home),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    printed = []
    try:
        for line in process.stderr:
            printed.append(line)
            if found := re.search(r"(http://127\.0\.0\.1:\d+)/\S*\?token=(\w+)", line):
                break
        else:
            raise AssertionError("".join(printed))
        with (home.parent / "lab.log").open("w") as log:
            reader = subprocess.Popen(["cat"], stdin=process.stderr, stdout=log)  # so that the pipe never fills
        yield Lab(home, found[1], found[2])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stderr.close()
    reader.wait(60)
    _, left = psutil.wait_procs(_of_this_run(home), timeout=30)
    assert left == [], f"left running: {[each.cmdline() for each in left]}"


def _of_this_run(home: Path) -> list[psutil.Process]:
    found = []
    for each in psutil.process_iter():
        try:
            if each.environ().get(_RUN_MARK) == str(home.parent):
                found.append(each)
        except psutil.Error:
            continue
    return found


def picture(page: Page, name: str) -> None:
    """A screenshot for people to look at, under build/browser."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")


def open_notebook(page: Page, lab: Lab, path: str) -> Locator:
    """Open a notebook, and wait for its kernel; its panel."""
    page.goto(lab.url(f"lab/tree/{path}"))
    panel = page.locator(".jp-NotebookPanel:visible")
    expect(panel.locator(".jp-CodeCell").first).to_be_visible(timeout=MINUTES)
    expect(panel.locator(".jp-Toolbar").get_by_text("Python 3")).to_be_visible(timeout=MINUTES)
    expect(panel.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')).to_be_visible(timeout=MINUTES)
    return panel


def menu(page: Page, *items: str) -> None:
    """Choose an entry of JupyterLab's menu bar."""
    page.locator("#jp-MainMenu").get_by_text(items[0], exact=True).click()
    for item in items[1:]:
        page.locator(".lm-Menu-item:visible").filter(has_text=re.compile(rf"^{re.escape(item)}")).first.click()


def cell(panel: Locator, text: str) -> Locator:
    """The code cell in which this text stands."""
    return panel.locator(".jp-CodeCell").filter(has=panel.page.locator(".cm-content", has_text=text)).first


def run(at: Locator) -> None:
    """Run one cell, and wait for its end."""
    at.locator(".cm-content").click()
    at.page.keyboard.press("Control+Enter")
    expect(at.locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"), timeout=2 * MINUTES)


def run_all(page: Page, panel: Locator) -> None:
    """Run every cell, and wait for the last one, or for the first error. Cells that are folded have no number."""
    menu(page, "Run", "Run All Cells")
    last = panel.locator(".jp-CodeCell .jp-InputArea-prompt").last
    ended = last.filter(has_text=re.compile(r"\[\d+\]:"))
    expect(ended.or_(errors(panel)).first).to_be_attached(timeout=5 * MINUTES)
    expect(panel.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')).to_be_visible(timeout=MINUTES)


def errors(panel: Locator) -> Locator:
    return panel.locator('[data-mime-type="application/vnd.jupyter.error"]')


def write(at: Locator, source: str) -> None:
    """Put another program into a cell, as by pasting."""
    at.locator(".cm-content").click()
    at.page.keyboard.press("Control+a")
    at.page.keyboard.insert_text(source)
