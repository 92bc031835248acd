"""The chapters with their outputs: each is run once, and what came out is kept for as long as its code is the same.

What is kept belongs to a chapter's code cells and to everything that they run: the package, the labs, the versions of
the libraries. So a change of prose costs no run, and a change of the package runs every chapter again.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 2  # a chapter starts processes of its own
CELL_SECONDS = 300
_FOR_PROGRAMS = re.compile(r"application/vnd\.rankup\.")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class ChapterError(Exception):
    """A chapter did not run to its end. The message is one sentence."""


def run(chapters: Iterable[Path], kept: Path) -> None:
    """Run the chapters of which nothing is kept yet, two at a time. Raises ChapterError."""
    kept.mkdir(parents=True, exist_ok=True)
    wanted = [chapter for chapter in chapters if not _place(chapter, kept).exists()]
    if wanted:
        print(f"{len(wanted)} chapters are to be run, {AT_ONCE} at a time; each takes up to two minutes", flush=True)
        asyncio.run(_run_all(wanted, kept))


def with_outputs(chapter: Path, kept: Path) -> nbformat.NotebookNode:
    """The chapter as it is now, with the outputs that are kept of it; without any where it was never run."""
    notebook = nbformat.read(chapter, as_version=4)
    place = _place(chapter, kept)
    outputs = json.loads(place.read_text()) if place.exists() else []
    for cell, shown in zip(_cells(notebook), outputs, strict=False):
        cell.outputs = [nbformat.from_dict(_for_readers(output)) for output in shown]
    return notebook


def _for_readers(output: dict[str, Any]) -> dict[str, Any]:
    """An output without what is in it for programs alone, such as the verdict that nbgrader reads."""
    data = output.get("data", {})
    return {**output, "data": {kind: data[kind] for kind in data if not _FOR_PROGRAMS.match(kind)}} if data else output


def keep(chapter: Path, kept: Path, outputs: list[Any]) -> None:
    """Keep what each code cell showed, in place of what was kept of the chapter before."""
    kept.mkdir(parents=True, exist_ok=True)
    for old in kept.glob(f"{chapter.stem}.*"):
        old.unlink()
    place = _place(chapter, kept)
    place.with_suffix(".new").write_text(json.dumps(outputs))
    place.with_suffix(".new").rename(place)  # a build that is stopped leaves nothing half written


async def _run_all(chapters: list[Path], kept: Path) -> None:
    free, done = asyncio.Semaphore(AT_ONCE), 0

    async def one(chapter: Path) -> None:
        nonlocal done
        async with free:
            begun = time.monotonic()
            keep(chapter, kept, await _outputs(chapter))
            done += 1
            print(f"  {chapter.stem}: {time.monotonic() - begun:.0f} s ({done} of {len(chapters)})", flush=True)

    try:
        async with asyncio.TaskGroup() as group:  # one that fails stops the others
            for chapter in chapters:
                group.create_task(one(chapter))
    except* ChapterError as failed:
        raise failed.exceptions[0] from None


async def _outputs(chapter: Path) -> list[Any]:
    """Run one chapter, in a process that ends its kernel when it is told to stop; what each of its code cells shows."""
    with tempfile.TemporaryDirectory(prefix="rankup-site-") as scratch:
        shown = Path(scratch, "outputs.json")
        # what a chapter does is not the progress of whoever builds the site
        process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, chapter, shown, stderr=asyncio.subprocess.PIPE, start_new_session=True,
            env={**os.environ, "RANKUP_DATA": scratch},
        )  # fmt: skip
        try:
            _, said = await process.communicate()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        if process.returncode:
            told = said.decode(errors="replace").strip().splitlines() or [f"exit status {process.returncode}"]
            raise ChapterError(f"{chapter.name} does not run: {told[-1]}")
        return list(json.loads(shown.read_text()))


def _run_one(chapter: Path, shown: Path) -> str:
    """Run one chapter in the folder where a reader runs it, and write what it shows; why it failed, or nothing."""
    notebook = nbformat.read(chapter, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],  # its warning that it talks over TCP is none of the reader's
        resources={"metadata": {"path": chapter.parent}},
    )
    try:
        client.execute()
    except CellExecutionError as error:
        said = _COLOURS.sub("", f"{error.ename}: {error.evalue}").splitlines()[0]
        return f"{said} {_where(notebook)}"
    except CellTimeoutError:
        return f"a cell took over {CELL_SECONDS} s {_where(notebook)}"
    except DeadKernelError:
        return f"its kernel died {_where(notebook)}"
    shown.write_text(json.dumps([cell.outputs for cell in _cells(notebook)]))
    return ""


def _where(notebook: nbformat.NotebookNode) -> str:
    """The cell at which a run ended: the last that was given a number."""
    reached = [cell for cell in _cells(notebook) if cell.get("execution_count") or cell.outputs] or _cells(notebook)
    first = next((line for line in reached[-1].source.splitlines() if line.strip()), "")
    return f"(in the cell that begins with `{first}`)"


def _cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _place(chapter: Path, kept: Path) -> Path:
    sources = json.dumps([cell.source for cell in _cells(nbformat.read(chapter, as_version=4))])
    return kept / f"{chapter.stem}.{hashlib.sha256((_code_of_the_package() + sources).encode()).hexdigest()[:16]}.json"


@functools.cache
def _code_of_the_package() -> str:
    """A hash of all that chapters run besides their own cells. What no chapter shows is left out."""
    whole = hashlib.sha256()
    folders = [ROOT / "grader", ROOT / "course" / "labs", ROOT / "course" / "lib"]
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".css", ".js"))
    aside = (ROOT / "grader" / "quiz", ROOT / "grader" / "classroom" / "batch")
    for path in [*files, ROOT / "constraints.txt"]:
        if not path.name.startswith("cli") and not any(path.is_relative_to(folder) for folder in aside):
            whole.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return whole.hexdigest()


if __name__ == "__main__":
    sys.exit(_run_one(Path(sys.argv[1]), Path(sys.argv[2])) or 0)
