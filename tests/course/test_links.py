"""Nothing in the course leads nowhere: every link to a file of ours, and to a heading in it; chapters in a row."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import chapters
import pytest
from chapters import CHAPTERS, COURSE

PAGES = [*CHAPTERS, COURSE / "glossary.md", COURSE / "sources.md"]
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")

each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def links(path: Path) -> list[str]:
    found = [link for line in chapters.lines(chapters.markdown(path)) for link in _LINK.findall(line)]
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def text(path: Path) -> str:
    """What was written in a chapter: the questions of chapter 20 are made from course/interview."""
    return chapters.markdown(path, without="whiteboard")


def anchor(heading: str) -> str:
    """As JupyterLab 4 makes it: what the heading shows, with hyphens for blanks."""
    return re.sub(r"[`*]", "", heading).replace(" ", "-")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_link_leads_to_a_file_and_a_heading(path: Path) -> None:
    for link in links(path):
        file, _, fragment = link.partition("#")
        target = (path.parent / unquote(file)).resolve() if file else path
        assert target.exists(), f"{path.name} links to {link}"
        if fragment:
            assert unquote(fragment) in map(anchor, chapters.headings(target)), f"{path.name} links to {link}"


@each_chapter
def test_a_chapter_leads_to_the_glossary_the_sources_and_interview(path: Path) -> None:
    wanted = {"glossary.md", "sources.md"} | ({"20-the-interview.ipynb"} - {path.name})
    assert wanted <= set(links(path))


@pytest.mark.parametrize(("one", "other"), list(pairwise(CHAPTERS)), ids=lambda path: path.stem[:2])
def test_chapters_lead_to_the_next_and_back(one: Path, other: Path) -> None:
    assert re.search(
        rf"^Before: .* Next: \[[^]]*\]\({re.escape(other.name)}\)|^Next: .*{re.escape(other.name)}", text(one), re.M
    )
    assert re.search(rf"^Before: \[[^]]*\]\({re.escape(one.name)}\)", text(other), re.M)


@each_chapter
def test_no_chapter_is_named_without_a_link(path: Path) -> None:
    """Other books' chapters follow a year: "2017, chapter 8"."""
    bare = re.findall(r"(?<!\d{4}, )(?<!\[)\b[Cc]hapter \d+", "\n".join(chapters.lines(text(path))))
    own = {f"chapter {int(path.stem[:2])}", f"Chapter {int(path.stem[:2])}"}
    assert set(bare) <= own


@each_chapter
def test_a_chapter_ends_with_what_to_say_practise_and_read(path: Path) -> None:
    order = ["What to say in ninety seconds", "Practise", "Further reading"]
    assert [heading for heading in chapters.headings(path) if heading in order] == order
    assert f"`rankup quiz {'01' if path.stem.startswith('00') else path.stem[:2]}`" in chapters.part(path, "Practise")


@each_chapter
def test_what_to_say_takes_ninety_seconds(path: Path) -> None:
    said = re.findall(r"^> (.+)", chapters.part(path, "What to say in ninety seconds"), re.MULTILINE)
    assert said
    for answer in said:
        assert 100 <= len(answer.split()) <= 225  # at 110 to 150 words a minute


@each_chapter
def test_the_interview_that_a_chapter_names_can_be_held(path: Path) -> None:
    practise = chapters.part(path, "Practise")
    assert set(re.findall(r"--topic (\d\d)", practise)) <= {path.stem[:2]}
    for name in re.findall(r"--round ([a-z0-9-]+)", practise):
        assert (COURSE / "interview" / "rounds" / f"{name}.md").is_file()
