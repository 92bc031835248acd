"""What the course names is run, exercised, started by a lab, or said to be words only: course/coverage.yaml is true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import chapters
import pytest
import yaml
from chapters import COURSE

from grader import catalog, registry

MAP = COURSE / "coverage.yaml"
ROWS: list[dict[str, Any]] = [row for rows in yaml.safe_load(MAP.read_text()).values() for row in rows]
NEEDS = {"run": {"has"}, "exercise": set[str](), "lab": {"in"}, "prose": {"has", "why"}}
NAMED = {name for row in ROWS for name in row.get("systems", [])}
LEAST_REASON = 2  # words

each_row = pytest.mark.parametrize("row", ROWS, ids=[row["item"] for row in ROWS])


def way(row: dict[str, Any]) -> str:
    found = [kind for kind in NEEDS if kind in row]
    assert len(found) == 1, f"{row['item']}: write one of {', '.join(NEEDS)} in coverage.yaml, and one only"
    return found[0]


def cells(chapter: str, kind: str) -> list[str]:
    path = catalog.chapter_notebook(chapter)
    assert path is not None, f"there is no chapter {chapter}: coverage.yaml takes its number, such as '07'"
    return [cell.source for cell in chapters.notebook(path).cells if cell.cell_type == kind]


@each_row
def test_a_row_says_what_its_kind_needs_and_nothing_else(row: dict[str, Any]) -> None:
    kind = way(row)
    assert set(row) - {"item", "systems", kind} == NEEDS[kind], f"{row['item']}: {kind} needs {sorted(NEEDS[kind])}"


@each_row
def test_the_place_that_a_row_names_is_there(row: dict[str, Any]) -> None:
    match way(row):
        case "run":
            code, text = (
                any(row["has"] in source for source in cells(row["run"], kind)) for kind in ("code", "markdown")
            )
            where = "stands in a text cell only: run it, or make the row prose" if text else "is nowhere in it"
            assert code, f"{row['item']}: {row['has']!r} is in no code cell of chapter {row['run']}; it {where}"
        case "prose":
            assert any(row["has"] in source for source in cells(row["prose"], "markdown")), (
                f"{row['item']}: no text cell of chapter {row['prose']} has {row['has']!r}: follow the sentence, "
                "or write what runs the item now"
            )
            assert len(row["why"].split()) >= LEAST_REASON, f"{row['item']}: say why nothing is run"
        case "exercise":
            assert row["exercise"] in registry.names(), f"{row['item']}: there is no exercise {row['exercise']}"
        case "lab":
            name = f"labs/{row['lab']}.py"
            assert (COURSE / name).is_file(), f"{row['item']}: there is no course/{name}"
            told = [name, f'lab("{row["lab"]}"']
            sources = cells(row["in"], "markdown") + cells(row["in"], "code")
            assert any(text in source for source in sources for text in told), (
                f"{row['item']}: chapter {row['in']} does not tell of {name}: link it where its item is taught"
            )


def test_no_item_stands_there_twice() -> None:
    items = [row["item"] for row in ROWS]
    assert len(items) == len(set(items)), sorted({item for item in items if items.count(item) > 1})


def names_of_the_stack() -> set[str]:
    """The second column of chapter 01's table of the stack, product by product."""
    table = next(source for source in cells("01", "markdown") if "<!-- topic: stack-landscape -->" in source)
    found: set[str] = set()
    for line in re.findall(r"^\|.*\|$", table, re.MULTILINE)[2:]:
        name = line.split("|")[2].replace("`tf.distribute`", "")
        found |= {part.strip() for part in re.split("[,:]", name)}
    return found


@pytest.mark.parametrize("name", sorted(names_of_the_stack()))
def test_each_system_of_the_stack_has_a_row(name: str) -> None:
    assert name in NAMED, f"chapter 01 names {name}: add it to the `systems` of the row that runs it, or give it a row"


@pytest.mark.parametrize("name", sorted(NAMED))
def test_each_system_of_the_map_is_a_word_of_the_course(name: str) -> None:
    pages: list[Path] = [*chapters.CHAPTERS, COURSE / "glossary.md"]
    assert any(name in chapters.markdown(page) for page in pages), f"no chapter, and not the glossary, says {name}"
