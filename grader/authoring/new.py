"""A new exercise: a folder and a notebook that are whole, small and right, to be changed into what is wanted."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from string import Template
from typing import Any

from grader import catalog, packs, registry
from grader.authoring import sync
from grader.submission import BadRequest

TEMPLATES = Path(__file__).with_name("templates")
SIMILAR = {"nodes": "vector_clocks", "job": "mapreduce", "spark": "spark_rdd", "ray": "ray_tasks",
           "crashes": "elastic_training", "plain": "cost_model"}  # fmt: skip


def new(name: str, world: str, chapter: str, pack: str = packs.OURS) -> list[Path]:
    """Make the files of an exercise, and return which. Raises BadRequest."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise BadRequest(f"{name!r} is not a name for an exercise: use only lowercase letters, digits and _")
    if name in registry.names():
        raise BadRequest(f"there is already an exercise called {name}")
    if world in SIMILAR:
        raise BadRequest(f"there is no template for {world}: copy the folder and the notebook of {SIMILAR[world]}")
    if not (TEMPLATES / world).is_dir():
        raise BadRequest(f"no world is called {world!r}; choose from ranks, {', '.join(SIMILAR)}")
    titles = {each.id: each.title for each in catalog.chapters()}
    if chapter not in titles:
        raise BadRequest(f"there is no chapter {chapter!r}; choose from {', '.join(titles)}")
    if pack not in packs.names():
        raise BadRequest(f"no pack is called {pack!r}; choose from {', '.join(packs.names())}")
    home, source = packs.folders(pack)[0] / name, _notebook(name, chapter, pack)
    filled = {"name": name, "chapter": chapter, "title": name.replace("_", " ").capitalize()}
    made = [source]
    for path in sorted(path for path in (TEMPLATES / world).rglob("*") if path.is_file()):
        if path.name not in ("statement.md", "solution.py.txt"):
            target = home / path.relative_to(TEMPLATES / world).with_name(path.name.removesuffix(".txt"))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(Template(path.read_text()).substitute(filled))
            made.append(target)
    source.parent.mkdir(parents=True, exist_ok=True)
    texts = [Template((TEMPLATES / world / each).read_text()) for each in ("statement.md", "solution.py.txt")]
    source.write_text(sync.text(_begun(*(text.substitute(filled) for text in texts))))
    importlib.invalidate_caches()
    registry.folders.cache_clear()
    return list(dict.fromkeys([*made, *sync.sync([name])]))


def _notebook(name: str, chapter: str, pack: str) -> Path:
    """Where the notebook with the solution is to be."""
    if pack != packs.OURS:
        return packs.folders(pack)[0] / name / "solution.ipynb"
    there = sorted((catalog.root() / "solutions").glob(f"{chapter}-*"))
    written = catalog.chapter_notebook(chapter)
    if not there and written is None:
        raise BadRequest(f"chapter {chapter} has no notebook yet, so its exercises have no folder")
    folder = there[0].name if there else written.stem if written else ""
    return catalog.root() / "solutions" / folder / f"{name}.ipynb"


def _begun(statement: str, solution: str) -> dict[str, Any]:
    """A notebook without its graded cells."""
    marks = {"grade": False, "grade_id": "statement", "locked": True, "schema_version": 3, "solution": False}
    first = {"nbgrader": {**marks, "task": False}}
    second = {"nbgrader": {**marks, "grade_id": "solution", "locked": False, "solution": True, "task": False}}
    cells = [
        {"cell_type": "markdown", "id": "statement", "metadata": first, "source": _lines(statement)},
        {"cell_type": "code", "execution_count": None, "id": "solution", "metadata": second, "outputs": [],
         "source": _lines(solution)},
    ]  # fmt: skip
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _lines(text: str) -> list[str]:
    return text.rstrip("\n").splitlines(keepends=True)
