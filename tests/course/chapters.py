"""The chapters as text: their sections, topics and headings, for tests of the course as a whole."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import nbformat

COURSE = Path(__file__).parent.parent.parent / "course"
CHAPTERS = sorted(COURSE.glob("[0-9][0-9]-*.ipynb"))
_TOPIC = re.compile(r"<!-- topic: ([a-z0-9-]+) -->")
_END = re.compile(r"## (Claimed and |What a GPU changes|The trade-off|What to say in ninety seconds)")
_HEADING = re.compile(r"(#{1,4}) (.+)")


@dataclass
class Section:
    """What stands between a topic's tag and the next topic's, or the chapter's end matter."""

    prose: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.prose)

    @property
    def words(self) -> int:
        """Of sentences and tables: code and headings do not count."""
        lines = re.sub(r"```.*?```", "", self.text, flags=re.DOTALL).splitlines()
        return sum(len(line.split()) for line in lines if not line.startswith(("#", "<", "    ")))


@cache
def notebook(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def markdown(path: Path, without: str = "") -> str:
    """All Markdown of a notebook, or the text of a .md file; not that of cells with the tag `without`."""
    if path.suffix != ".ipynb":
        return path.read_text()
    cells = [cell for cell in notebook(path).cells if cell.cell_type == "markdown"]
    return "\n\n".join(cell.source for cell in cells if without not in cell.metadata.get("tags", []))


def lines(text: str) -> Iterator[str]:
    """The lines that are no code."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield line


def headings(path: Path) -> list[str]:
    return [found[2].strip() for line in lines(markdown(path)) if (found := _HEADING.fullmatch(line))]


def part(path: Path, heading: str) -> str:
    """The text below a heading `## ...`, up to the next one of that level."""
    taken: list[str] = []
    inside = False
    for line in lines(markdown(path)):
        if re.match(r"#{1,2} ", line):
            inside = line == f"## {heading}"
        elif inside:
            taken.append(line)
    return "\n".join(taken)


@cache
def topics(path: Path) -> dict[str, Section]:
    """The sections of a chapter that are tagged with a topic."""
    found: dict[str, Section] = defaultdict(Section)
    topic = ""
    for cell in notebook(path).cells:
        if cell.cell_type == "code":
            if topic:
                found[topic].code.append(cell.source)
            continue
        for line in cell.source.splitlines():
            if tag := _TOPIC.search(line):
                topic = tag[1]
                assert topic not in found, f"{path.name} has topic {topic} twice"
                found[topic].prose.append("")
            elif _END.match(line):
                topic = ""
            if topic:
                found[topic].prose.append(line)
    return dict(found)
