"""Chapter 20's cells of questions, written from course/interview/*.md and course/questions.yaml.

    python -m tools.whiteboard            # write them into the chapter
    python -m tools.whiteboard --check    # exit status 1 if they are not in step

A generated cell has the tag `whiteboard`; all cells with it are replaced, and nothing else is touched.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
import yaml

from grader import catalog
from grader.quiz.interview import rubric
from grader.quiz.interview.content import Entry, parse

TAG = "whiteboard"


def areas(course: Path) -> Iterator[tuple[str, list[Entry]]]:
    """Each file's title and its entries, in the order of the files' names."""
    for path in sorted((course / "interview").glob("[0-9]*.md")):
        text = path.read_text(encoding="utf-8")
        title = re.search(r"^title: (.+)$", text, flags=re.MULTILINE)
        yield title[1] if title else path.stem, parse(text, path.name)


def texts(course: Path) -> Iterator[tuple[str, str]]:
    """The id and the Markdown of every cell. Raises KeyError for an entry that is no question of questions.yaml."""
    questions = {q["id"]: q for q in yaml.safe_load((course / "questions.yaml").read_text())["questions"]}
    topics = {t["id"]: t for t in yaml.safe_load((course / "syllabus.yaml").read_text())["topics"]}
    for title, entries in areas(course):
        slug = re.sub(r"[^a-z]+", "-", title.lower())
        yield f"questions-{slug}", f"### {title}: {len(entries)} questions"
        for entry in entries:
            question = questions[entry.question]
            yield entry.question, _text(entry, question, topics[question["topic"]], course)


def _text(entry: Entry, question: Mapping[str, Any], topic: Mapping[str, Any], course: Path) -> str:
    lines = [
        f"#### {question['q']}",
        "",
        " · ".join([question["level"], *_where(topic, course), f"`{entry.question}`"]),
    ]
    follow_ups = "\n".join(f"- {_indented(f'**{each.question}** {each.answer}')}" for each in entry.follow_ups)
    folded = {
        "Model answer": entry.answer.strip(),
        "What an interviewer listens for": rubric.listed(entry.points),
        "Follow-ups": follow_ups,
    }
    for summary, text in folded.items():
        lines += ["", f"<details><summary>{summary}</summary>", "", text, "", "</details>"]
    return "\n".join(lines)


def _indented(entry: str) -> str:
    return entry.strip().replace("\n", "\n  ")


def _where(topic: Mapping[str, Any], course: Path) -> Iterator[str]:
    """Links to the chapter and the exercise of a topic."""
    chapter = next((path.name for path in course.glob(f"{topic['chapter']}-*.ipynb")), "")
    named = f"chapter {topic['chapter']}, `{topic['id']}`"
    yield f"[{named}]({chapter})" if chapter else named
    if exercise := topic.get("exercise"):
        there = next(course.parent.glob(f"exercises/*/{exercise}.ipynb"), None)
        yield f"[`{exercise}`](../exercises/{there.parent.name}/{exercise}.ipynb)" if there else f"`{exercise}`"


def renewed(notebook: Any, course: Path) -> Any:
    """The notebook's cells with those of the tag replaced; they come last where there are none."""
    kept = [cell for cell in notebook.cells if not _generated(cell)]
    first = next((at for at, cell in enumerate(notebook.cells) if _generated(cell)), len(kept))
    fresh = [nbformat.v4.new_markdown_cell(text, id=name, metadata={"tags": [TAG]}) for name, text in texts(course)]
    return [*kept[:first], *fresh, *kept[first:]]


def _generated(cell: Any) -> bool:
    return TAG in cell.metadata.get("tags", [])


def main(arguments: list[str]) -> int:
    course = catalog.course()
    path = next(course.glob("20-*.ipynb"))
    notebook = nbformat.read(path, as_version=4)
    cells = renewed(notebook, course)
    if "--check" in arguments:
        in_step = cells == notebook.cells
        print("in step" if in_step else f"{path.name} is not in step: run python -m tools.whiteboard")
        return 0 if in_step else 1
    notebook.cells = cells
    nbformat.write(notebook, path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
