"""What the course holds, as far as the learner's standing needs it: kept in a file next to the learner's progress,
because to find it out imports all exercises and reads all decks.

The file counts as long as nothing that it comes from has changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from grader import catalog, packs, progress
from grader.quiz.schema import path

_FILE = "course.json"


class Task(NamedTuple):
    """An exercise, without what judges it."""

    name: str
    chapter: str
    title: str
    minutes: int
    max_points: float


class Lesson(NamedTuple):
    """A chapter, with the digests of its code cells; None where it is not written yet."""

    id: str
    title: str
    cells: list[str] | None


class Asked(NamedTuple):
    """A topic of the syllabus, the chapter that it is in, and the exercise that practises it."""

    topic: str
    chapter: str
    exercise: str | None


@dataclass(frozen=True)
class Known:
    """Chapters, topics and exercises, in order, and the ids of each deck's cards."""

    chapters: list[Lesson]
    topics: list[Asked]
    exercises: list[Task]
    decks: dict[str, list[str]]


def known() -> Known:
    """All of it: from the file if nothing has changed. Raises DeckError for broken decks, and BadRequest."""
    file = progress.data_folder() / _FILE
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(file.read_text("utf-8"))
        if kept["stamp"] == _stamp(kept["folders"]):
            return _known(**kept["known"])
    folders = [str(folder) for folder in (*packs.answers(), catalog.course(), path().parent / "cards")]
    stamp = _stamp(folders)
    found = _find_out()
    from grader.quiz.deck import DeckError
    from grader.quiz.whole import write_whole

    with contextlib.suppress(DeckError, OSError):  # then it is found out each time
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps({"stamp": stamp, "folders": folders, "known": asdict(found)}))
    return found


def _known(
    chapters: Sequence[Sequence[object]], topics: Sequence[Sequence[object]], exercises: Sequence[Sequence[object]],
    decks: dict[str, list[str]],
) -> Known:  # fmt: skip
    return Known([Lesson(*each) for each in chapters], [Asked(*each) for each in topics],  # type: ignore[arg-type]
                 [Task(*each) for each in exercises], decks)  # type: ignore[arg-type]  # fmt: skip


def _find_out() -> Known:
    from grader import reading, registry
    from grader.quiz.deck import DeckError
    from grader.quiz.folder import load_all, load_folder

    chapters = []
    for each in catalog.chapters():
        notebook = catalog.chapter_notebook(each.id)
        chapters.append(Lesson(each.id, each.title, reading.cells(notebook) if notebook else None))
    topics = [Asked(each.id, each.chapter, each.exercise) for each in catalog.topics()]
    tasks = [Task(each.name, each.chapter, each.title, each.minutes, each.max_points) for each in registry.catalogue()]
    try:
        decks = load_all(catalog.cards())
    except DeckError:  # in a deck of the learner's own, perhaps: the quiz says what is wrong there
        decks = load_folder(catalog.cards())
    return Known(chapters, topics, tasks, {deck.id: [card.id for card in deck.cards] for deck in decks})


def _stamp(folders: Sequence[str]) -> str:
    """Of names, sizes and times of all files in these folders, and of the folders that packs can be installed to."""
    named = (os.environ.get(name, "").split(os.pathsep) for name in (packs.FOLDERS, "PYTHONPATH"))
    installed = [folder for folder in sys.path if folder.endswith("-packages")]
    places = [*installed, *(folder for each in named for folder in each if folder)]
    found = [sys.version, *(f"{place} {_time(place)}" for place in places), *_files(folders)]
    return f"{zlib.crc32(chr(10).join(sorted(found)).encode('utf-8', 'surrogatepass')):08x}"


def _time(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _files(folders: Sequence[str]) -> Iterator[str]:
    todo = list(folders)
    while todo:
        try:
            entries = os.scandir(todo.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                if not entry.is_dir():
                    about = entry.stat(follow_symlinks=False)
                    yield f"{entry.path} {about.st_size} {about.st_mtime_ns}"
                elif entry.name != "__pycache__":
                    todo.append(entry.path)
