"""The pages of the site as texts: chapters, exercises, cards, interview, from the files of the course."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

import executed
import interviews
import lab_page
import nbformat

from grader import catalog
from grader.exercise import Exercise
from grader.quiz.deck import Card, Deck
from grader.quiz.parser import parse
from grader.registry import find

ROOT = executed.ROOT
COURSE = ROOT / "course"
REFERENCE = {"glossary.md": "Glossary", "sources.md": "Sources"}

Pages = dict[str, str | bytes]  # path below the source folder -> what stands in it

_TOPIC = re.compile(r"<!-- topic: ([a-z0-9-]+) -->[ \t]*\n+(?=#)")
_LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")
_ASKED = re.compile(r'\*\*The interviewer:\*\*\s*\*"(.+?)"\*', re.DOTALL)


def chapters() -> list[Path]:
    return sorted(COURSE.glob("[0-9][0-9]-*.ipynb"))


_NO_BRACKETS = str.maketrans({"[": "(", "]": ")"})


def gather(kept: Path) -> Pages:
    """Every page, and every file that a page links to; chapters with the outputs that are kept of them."""
    pages: Pages = {}
    books = {path.stem: executed.with_outputs(path, kept) for path in chapters()}
    topics = set()
    for stem, book in books.items():
        book.metadata.language_info = {"name": "python", "pygments_lexer": "ipython3"}  # cells may begin with `!`
        for cell in book.cells:
            if cell.cell_type == "markdown":
                topics.update(re.findall(r"<!-- topic: ([a-z0-9-]+) -->", cell.source))
                cell.source = _TOPIC.sub(r"(topic-\1)=\n", cell.source)
            elif cell.metadata.get("jupyter", {}).get("source_hidden"):
                cell.metadata.tags = [*cell.metadata.get("tags", []), "hide-input"]  # folded, as in JupyterLab
        pages[f"course/{stem}.ipynb"] = nbformat.writes(book)
    exercises = sorted((ROOT / "exercises").glob("*/*.ipynb"))
    for path in exercises:
        pages[f"exercises/{path.parent.name}/{path.name}"] = _exercise(path)
    decks = [parse(path.read_text(), path.name) for path in sorted((COURSE / "cards").glob("*.md"))]
    for deck in decks:
        pages[f"course/cards/{Path(deck.file).name}"] = _deck(deck, topics)
    for path in (COURSE / "cards" / "pictures").glob("*.svg"):
        pages[f"course/cards/pictures/{path.name}"] = path.read_bytes()
    pages.update(interviews.pages(COURSE, topics))
    for name in REFERENCE:
        if (COURSE / name).exists():
            pages[f"course/{name}"] = (COURSE / name).read_text()
    pages["course/labs/index.md"] = lab_page.page(COURSE)
    pages["exercises/index.md"] = _list_of_exercises(exercises)
    pages["course/cards/index.md"] = _list_of_decks(decks)
    pages["index.md"] = _front(books, exercises, decks, pages)
    pages = {page: _without_folders(page, text) for page, text in pages.items()}
    pages.update(_linked(pages))
    return pages


def _without_folders(page: str, text: str | bytes) -> str | bytes:
    """A page whose links to folders are plain text: JupyterLab opens a folder, a site has no page for one."""

    def plain(link: re.Match[str]) -> str:
        return link[1] if (ROOT / posixpath.dirname(page) / link[2]).is_dir() else link[0]

    return re.sub(r"\[([^\[\]]*)\]\(([^)#\s:]+)\)", plain, text) if isinstance(text, str) else text


def _linked(pages: Pages) -> Pages:
    """The files of the repository that pages link to and that are no pages: programs, mostly."""
    found: Pages = {}
    for page, text in pages.items():
        if isinstance(text, str):
            for target, _ in _LINK.findall(text):
                path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
                if path not in pages and not path.startswith("..") and (ROOT / path).is_file():
                    found[path] = (ROOT / path).read_bytes()
    return found


def _toctree(caption: str, entries: list[str], depth: int = 1) -> str:
    return "\n".join(
        ["```{toctree}", f":caption: {caption}", f":maxdepth: {depth}", ":hidden:", "", *entries, "```", ""]
    )


def _front(books: dict[str, nbformat.NotebookNode], exercises: list[Path], decks: list[Deck], pages: Pages) -> str:
    cards = {deck.id: len(deck.cards) for deck in decks}
    lines = ["| chapter | the interviewer asks | exercises | cards |", "|---|---|---|---|"]
    for stem, book in books.items():
        asked = _ASKED.search("\n".join(cell.source for cell in book.cells[:3]))
        question = _first_question(asked[1]) if asked else ""
        here = [f"[{path.stem}]({path.relative_to(ROOT).as_posix()})" for path in exercises if path.parent.name == stem]
        deck = f"[{cards[stem[:2]]}](course/cards/{stem}.md)" if f"course/cards/{stem}.md" in pages else ""
        title = book.cells[0].source.splitlines()[0].lstrip("# ")
        lines.append(f"| [{_cell(title)}](course/{stem}.ipynb) | {_cell(question)} | {', '.join(here)} | {deck} |")
    practice = ["exercises/index", "course/cards/index", "course/labs/index"]
    if "course/interview/index.md" in pages:
        practice.append("course/interview/index")
    reference = [f"course/{Path(name).stem}" for name in REFERENCE if f"course/{name}" in pages]
    trees = _toctree("Chapters", [f"course/{stem}" for stem in books]) + "\n" + _toctree("Practice", practice)
    if reference:
        trees += "\n" + _toctree("Reference", reference)
    return (ROOT / "site" / "front.md").read_text() + "\n" + "\n".join(lines) + "\n\n" + trees


def _first_question(text: str) -> str:
    """Whole sentences from the beginning to the first question mark."""
    text = " ".join(text.split())
    return text[: text.find("?") + 1] or text


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _exercise(path: Path) -> str:
    """The released notebook, its graded cells as a table of what is checked. There is no solution in it."""
    notebook = nbformat.read(path, as_version=4)
    kept = []
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        if about.get("grade_id") == "graded-text":
            kept.append(nbformat.v4.new_markdown_cell(_checks(find(path.stem)), id="checks"))
        elif not about.get("grade"):
            kept.append(cell)
    kept.append(nbformat.v4.new_markdown_cell(_how_to_start(path), id="how-to-start"))
    notebook.cells = kept
    return nbformat.writes(notebook)


def _checks(exercise: Exercise) -> str:
    rows = [f"| {_cell(check.title)} | {check.points:g} |" for check in exercise.checks]
    total = sum(check.points for check in exercise.checks)
    return "\n".join(["## Graded", "", "| check | points |", "|---|---|", *rows, f"| **all** | **{total:g}** |"])


def _how_to_start(path: Path) -> str:
    name, folder = path.stem, path.parent.name
    lines = ["## Do it", "", "```sh", f"rankup start {name}        # your own copy, under work/"]
    lines += [f"rankup lab {name}", f"rankup grade {name} work/{folder}/{name}.ipynb", "```"]
    if (COURSE / f"{folder}.ipynb").exists():
        lines += ["", f"The chapter: [{folder[:2]}](../../course/{folder}.ipynb)."]
    return "\n".join(lines)


def _list_of_exercises(paths: list[Path]) -> str:
    titles = {chapter.id: chapter.title for chapter in catalog.chapters()}
    lines = ["# Exercises", "", f"{len(paths)} exercises. `rankup start NAME` makes a copy of your own under `work/`; "
             "`rankup grade NAME FILE` says what is right, and where it went wrong.", ""]  # fmt: skip
    for folder in sorted({path.parent.name for path in paths}):
        lines += [f"## {folder[:2]} {titles[folder[:2]]}", "", "| exercise | name | minutes | difficulty | points |"]
        lines.append("|---|---|---|---|---|")
        for path in (path for path in paths if path.parent.name == folder):
            found = find(path.stem)
            points = sum(check.points for check in found.checks)
            lines.append(f"| [{_cell(found.title)}]({folder}/{path.name}) | `{path.stem}` | {found.minutes} | "
                         f"{found.difficulty} of 3 | {points:g} |")  # fmt: skip
        lines.append("")
    lines.append(
        _toctree("Exercises", [path.relative_to(ROOT / "exercises").with_suffix("").as_posix() for path in paths])
    )
    return "\n".join(lines)


def _list_of_decks(decks: list[Deck]) -> str:
    lines = ["# Flashcards", "", f"{sum(len(deck.cards) for deck in decks)} cards. `rankup quiz` asks them when they "
             "are due; here they are to be read, with their answers folded.", ""]  # fmt: skip
    lines += ["| deck | cards |", "|---|---|"]
    lines += [f"| [{deck.id} {_cell(deck.title)}]({Path(deck.file).name}) | {len(deck.cards)} |" for deck in decks]
    return "\n".join([*lines, "", _toctree("Decks", [Path(deck.file).stem for deck in decks])])


def _deck(deck: Deck, topics: set[str]) -> str:
    lines = [f"# Cards: {deck.title}", ""]
    for card in deck.cards:
        lines += [f'<div class="flashcard" id="card-{card.id}">', "", *_card(card, topics), "", "</div>", ""]
    return "\n".join(lines)


def _card(card: Card, topics: set[str]) -> Iterator[str]:
    about = f"[{card.topic}](#topic-{card.topic})" if card.topic in topics else card.topic
    yield from (f"**{card.level}** · {about}", "", card.question, "")
    if card.picture:
        yield from (f"![{card.alt.translate(_NO_BRACKETS)}]({card.picture})", "")
    # a choice's options as they are written; a protocol's steps in an order that tells nothing
    yield from (f"- {_indented(text)}" for text in (*(o.text for o in card.options), *sorted(card.steps)))
    yield from ("", "<details><summary>Answer</summary>", "")
    if card.number:
        yield from (f"**{card.number.value:g} {card.number.unit}**", "")
    yield from (card.answer, "", "</details>")


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n  ")
