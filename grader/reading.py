"""Which cells of a chapter the learner has run: JupyterLab's kernels tell it themselves, cell by cell.

A chapter imports `grader`, which calls `follow()`. It does nothing but in a kernel that Jupyter's server has started
for a chapter: no test, no site and no grading counts as reading.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Any

_CHAPTER = re.compile(r"(\d\d)-[a-z0-9-]+\.ipynb")


def digest(source: str) -> str:
    """What a cell is known by: its text without what white space surrounds it, so that moving it changes nothing."""
    return hashlib.sha256(source.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16]


def cells(notebook: Path) -> list[str]:
    """The digests of a chapter's code cells."""
    import json

    listing = json.loads(notebook.read_text("utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in listing if cell["cell_type"] == "code"]
    return [digest(source) for source in sources if source.strip()]


def chapter(path: str) -> str | None:
    """The chapter that a notebook of this path is ("06"), or None: the learner's own notebooks are not followed."""
    found = _CHAPTER.fullmatch(Path(path).name)
    return found[1] if found else None


def follow() -> None:
    """From now on, remember each cell of the chapter that runs without an error; once for each kernel."""
    path = os.environ.get("JPY_SESSION_NAME", "")  # set by Jupyter's server for the kernels of notebooks
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    here = chapter(path)
    if shell is None or here is None or any(isinstance(each, _Follower) for each in _followers(shell)):
        return
    follower = _Follower(here)
    shell.events.register("post_run_cell", follower)


def _followers(shell: Any) -> list[Any]:
    return list(shell.events.callbacks["post_run_cell"])


class _Follower:
    """Called by IPython after each cell, also after the one that imported `grader`."""

    __name__ = "remember what was read"  # IPython names it in its messages

    def __init__(self, chapter: str) -> None:
        self.chapter = chapter

    def __call__(self, result: Any) -> None:
        from grader import progress
        from grader.submission import BadRequest

        source = result.info.raw_cell
        if result.success and isinstance(source, str) and source.strip():
            with contextlib.suppress(BadRequest):  # reading goes on where nothing can be remembered
                progress.record_cell(self.chapter, digest(source))
