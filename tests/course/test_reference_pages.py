"""The glossary and the sources agree with the chapters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import chapters
import pytest
from chapters import CHAPTERS, COURSE

GLOSSARY, SOURCES = ((COURSE / name).read_text() for name in ("glossary.md", "sources.md"))


class Term(NamedTuple):
    names: str  # several are separated by commas
    meaning: str
    chapter: str  # the file that teaches it


TERMS = [
    Term(*found) for found in re.findall(r"^\*\*(.+?)\*\*: (.+)\n\[\d+ · .+\]\(([^)#]+)(?:#\S+)?\)$", GLOSSARY, re.M)
]


def plain(text: str) -> str:
    """Whether one writes all-reduce, all_reduce or all reduce makes no difference."""
    return re.sub(r"[\s_\-‑`*]+", " ", text.casefold()).strip()


def works(page: str) -> list[str]:
    """The titles: what stands in italics in a list of sources."""
    return [
        title
        for line in page.splitlines()
        if line.startswith("- ")
        for title in re.findall(r"\*((?:\\.|[^*])+)\*", line)
    ]


def test_the_glossary_has_its_terms_each_in_two_lines() -> None:
    assert len(TERMS) >= 150
    assert len(TERMS) == len(re.findall(r"^\*\*", GLOSSARY, re.M)), "an entry has another form than the others"


def test_the_glossary_is_sorted_and_says_nothing_twice() -> None:
    names = [term.names.casefold() for term in TERMS]
    assert names == sorted(set(names))
    assert re.findall(r"^## (.+)$", GLOSSARY, re.M) == sorted({letter(term.names) for term in TERMS})


def letter(names: str) -> str:
    return names[0].upper() if names[0].isalpha() else "0-9"


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.names)
def test_a_term_is_used_in_the_chapter_that_it_leads_to(term: Term) -> None:
    text = plain(chapters.markdown(COURSE / term.chapter))
    assert any(plain(name) in text for name in term.names.split(", "))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_what_a_chapter_tells_to_read_is_among_the_sources_and_says_where(path: Path) -> None:
    cited = [line for line in SOURCES.splitlines() if f"]({path.name})" in line]
    known = [plain(title) for line in cited for title in works(line)]
    for title in works(chapters.part(path, "Further reading")):
        assert any(other.startswith(plain(title)) for other in known), title


def test_the_sources_are_sorted_by_name() -> None:
    papers, manuals = (re.findall(r"^- ([^:]+):", part, re.M) for part in SOURCES.split("\n## ")[1:])
    surnames = [re.sub(r"^([A-Z]\.[ -]?)+(van )?", "", re.split(",| and | et al", who)[0]).casefold() for who in papers]
    assert surnames == sorted(surnames)
    assert manuals == sorted(manuals, key=str.casefold)
