"""Where the course's files are: in a checkout, or inside an installed package."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader import packs
from grader.submission import BadRequest

_PACKAGE = Path(__file__).parent
_TOPIC = re.compile(r"<!--\s*topic:\s*([a-z0-9-]+)\s*-->")


@dataclass(frozen=True)
class Chapter:
    """One chapter of the course, `id` as in its file's name ("06")."""

    id: str
    title: str


def root() -> Path:
    """The folder that holds course/ and exercises/: the checkout, or what was packed into the wheel."""
    packed = _PACKAGE / "_data"
    return packed if packed.is_dir() else _PACKAGE.parent


def is_checkout() -> bool:
    """Whether the course is a folder that its reader can work in; else it is inside an installed package."""
    return not (_PACKAGE / "_data").is_dir()


def course() -> Path:
    return root() / "course"


def cards() -> Path:
    return course() / "cards"


def _listing(file: str) -> dict[str, list[dict[str, Any]]]:
    """What one of the course's YAML files holds."""
    import yaml  # here: most commands need no listing

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast
    found: dict[str, list[dict[str, Any]]] = yaml.load((course() / file).read_bytes(), Loader=loader)
    return found


def chapters() -> list[Chapter]:
    """Every chapter of the syllabus, in order."""
    listing = _listing("syllabus.yaml")
    return [Chapter(entry["id"], entry["title"]) for entry in listing["chapters"]]


@dataclass(frozen=True)
class Topic:
    """One topic of the syllabus, the levels at which it is asked, and the exercise in which it is practised, if any."""

    id: str
    chapter: str
    levels: tuple[str, ...]
    exercise: str | None = None


def topics() -> list[Topic]:
    """Every topic of the syllabus."""
    listing = _listing("syllabus.yaml")
    return [
        Topic(entry["id"], entry["chapter"], tuple(entry["levels"]), entry.get("exercise"))
        for entry in listing["topics"]
    ]


def questions() -> list[str]:
    """The ids of the interview questions that the course must answer."""
    return [question.id for question in asked()]


@dataclass(frozen=True)
class Asked:
    """One interview question, as questions.yaml has it."""

    id: str
    level: str
    topic: str
    text: str


def asked() -> list[Asked]:
    """Every interview question."""
    listing = _listing("questions.yaml")
    return [Asked(entry["id"], entry["level"], entry["topic"], entry["q"]) for entry in listing["questions"]]


def interview() -> Path:
    """The folder of the interview's answers, with the design rounds in rounds/."""
    return course() / "interview"


def sections(chapter: str = "*") -> dict[str, tuple[Path, str]]:
    """The notebook and the heading of each topic's section, of one chapter or of all: the first heading after
    `<!-- topic: ID -->`."""
    found: dict[str, tuple[Path, str]] = {}
    for notebook in sorted(course().glob(f"{chapter}-*.ipynb")):
        topic = None
        for cell in json.loads(notebook.read_text())["cells"]:
            for line in "".join(cell["source"]).splitlines() if cell["cell_type"] == "markdown" else ():
                if mark := _TOPIC.fullmatch(line.strip()):
                    topic = mark[1]
                elif topic and line.startswith("#"):
                    found.setdefault(topic, (notebook, line.lstrip("#").strip()))
                    topic = None
    return found


def chapter_notebook(chapter: str) -> Path | None:
    """The chapter's notebook, or None while it is not written."""
    return next(iter(sorted(course().glob(f"{chapter}-*.ipynb"))), None)


def exercise_notebook(name: str) -> Path:
    """The released notebook of an exercise: ours, or the one in its folder in a pack. Raises BadRequest if there is
    none."""
    return _notebook(name, "exercises", f"{name}.ipynb")


def solution_notebook(name: str) -> Path:
    """The notebook with the reference solution. Raises BadRequest if it is not here."""
    return _notebook(name, "solutions", "solution.ipynb")


def _notebook(name: str, folder: str, of_pack: str) -> Path:
    of_packs = (place / name / of_pack for pack in packs.names()[1:] for place in packs.found(pack))
    found = next((root() / folder).glob(f"*/{name}.ipynb"), None) or next(filter(Path.is_file, of_packs), None)
    if found is None:
        raise BadRequest(f"the notebook of {name} is missing from {root() / folder}")
    return found
