"""Plain words: what a learner reads has none of the words that readers stumbled over."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTEAD = {
    r"whoever": "name who: a rank that, a node that",
    r"for ever": "forever",
    r"inside of": "inside",
    r"by turns": "in turn",
    r"befalls?|befell": "happens to",
    r"mend(?:s|ed|ing)?": "fix",
    r"hardly any(?:body|thing)?": "almost no",
    r"dear(?:er)?": "expensive",
    r"beside": "next to",
    r"by and by": "over time",
    r"who is \w+ \w+s": "name who: a node that is",
    r"optimiser": "optimizer",
    r"(?:synchron|serial|initial|optim)is(?:e|ed|es|ing|ation)": "-ize",
    r"behaviour|colour|neighbour": "American spelling",
    r"time stamp": "timestamp",
}
WORDS = re.compile("|".join(rf"(?P<w{place}>\b(?:{word})\b)" for place, word in enumerate(INSTEAD)), re.IGNORECASE)


def problems(place: str, text: str) -> Iterator[str]:
    for found in WORDS.finditer(text):
        instead = list(INSTEAD.values())[int((found.lastgroup or "w0")[1:])]
        around = text[max(0, found.start() - 40) : found.end() + 40].replace("\n", " ")
        yield f"{place}: {found[0]!r} in {around!r}; say instead: {instead}"


def told(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module that may be read by learners: strings of three words or more that are no docstring."""
    tree = ast.parse(path.read_text())
    homes = [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef) and n.body]
    docstrings = {id(home.body[0].value) for home in homes if isinstance(home.body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings and str(node.value).count(" ") >= 2:
            yield node.lineno, str(node.value)


def bare_sizes(source: str) -> Iterator[int]:
    """The lines where a size in bytes is written without separated thousands."""
    for node in ast.walk(ast.parse(source)):
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for size, text in itertools.pairwise(parts):
            if isinstance(size, ast.FormattedValue) and isinstance(text, ast.Constant):
                spec = ast.unparse(size.format_spec) if size.format_spec else ""
                rounded = spec.rstrip("'").endswith("g")
                if re.match(r" (more )?bytes\b", str(text.value)) and "," not in spec and not rounded:
                    yield size.lineno


def test_the_list_finds_what_it_is_for() -> None:
    old = "Who is refused waits; whoever serialises for ever befalls a dear neighbour beside it: mend that."
    assert len(list(problems("here", old))) == 9


def test_messages_are_in_plain_words() -> None:
    modules = [path for path in sorted((ROOT / "grader").rglob("*.py")) if path.parent.name != "right"]
    found = [
        problem
        for path in modules
        for line, text in told(path)
        for problem in problems(f"{path.relative_to(ROOT)}:{line}", text)
    ]
    assert len(modules) > 300
    assert not found, "\n".join(found)


def test_sizes_have_their_thousands_separated() -> None:
    assert list(bare_sizes("f'{a} bytes'\nf'{a:,} bytes'\nf'{a:.0f} more bytes'")) == [1, 3]
    found = [
        f"{path.relative_to(ROOT)}:{line}: write {{size:,}} bytes"
        for path in sorted((ROOT / "grader" / "exercises").rglob("*.py"))
        if path.parent.name != "right" and path.name != "in_box.py"
        for line in bare_sizes(path.read_text())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", ["solutions", "README.md"])
def test_statements_are_in_plain_words(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.ipynb")) or [ROOT / folder]
    found: list[str] = []
    for path in paths:
        texts = [path.read_text()]
        if path.suffix == ".ipynb":
            cells = json.loads(texts[0])["cells"]
            texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        found += [problem for text in texts for problem in problems(str(path.relative_to(ROOT)), text)]
    assert not found, "\n".join(found)
