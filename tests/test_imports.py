"""Who may import whom: layers of CONTRIBUTING.md, held against the imports in the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "grader"
CHAPTERS = ROOT / "course" / "lib" / "courselib"

# each part may import parts of lower layers, and parts of its own; `quiz` stands alone
LAYERS = [
    {"verdict", "planning", "scheduling", "says", "packs"},
    {"lost", "tally"},
    {"submission", "sandbox", "trace"},
    {"catalog", "progress", "ranks", "nodes", "jobs", "serving", "kubelet"},
    {"exercise", "doctor", "reading"},
    {"worlds"},
    {"exercises", "registry", "grading"},
    {"classroom"},
    {"authoring"},
    {"standing"},
    {"cli_quiz", "cli_nodes"},
    {"cli", "__init__"},
    {"daemon"},
]
LAYER = {part: number for number, parts in enumerate(LAYERS) for part in parts}
ABOVE_QUIZ = ("cli_quiz", "standing")
SIMULATED = ("serve", "group", "world", "context", "futures", "collectives", "products", "shapes", "apart")
IN_THE_BOX = {
    *("ranks/lives/life.py", "ranks/lives/director.py", "ranks/lives/torchrun.py", "ranks/lives/gates.py"),
    *("ranks/worker.py", "ranks/learner.py"),
    "serving/model.py",  # in forward(), for engines: what a request gets alone is numpy's
    *("ranks/recorder.py", "ranks/called.py", "ranks/groups.py", "ranks/watch.py"),
    *(f"ranks/sim/{name}.py" for name in SIMULATED),
    *(str(path.relative_to(PACKAGE)) for path in (PACKAGE / "exercises").glob("*/*in_box.py")),  # text for it
}
UNPICKLE = {"jobs/host.py"}  # in the box, for the processes there among themselves
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent.name != "right")
OF_CHAPTERS = sorted(CHAPTERS.rglob("*.py"))


def part(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module that `path` imports, wherever in the file, as a dotted name."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def used_parts(path: Path) -> set[str]:
    names = [name.split(".") for name in imports(path) if name.split(".")[0] == "grader"]
    mine = {part(path)} if path.is_relative_to(PACKAGE) else set()
    return {name[1] for name in names if len(name) > 1} - mine


def wrong_layers(path: Path) -> Iterator[str]:
    me, uses = part(path), used_parts(path)
    where = path.relative_to(PACKAGE)
    if "courselib" in {name.split(".")[0] for name in imports(path)}:
        yield f"{where} imports courselib: chapters use the grader, not it them"
    if me == "quiz":
        yield from (f"{where} imports grader.{other}, but grader.quiz stands alone" for other in uses)
    elif me not in LAYER:
        yield f"{where} is a new part: give it a layer here and in CONTRIBUTING.md"
    else:
        below = {other for other in uses if LAYER.get(other, 99) < LAYER[me] or (other == "quiz" and me in ABOVE_QUIZ)}
        yield from (f"{where} imports grader.{other}, which is not below {me}" for other in uses - below)


def test_modules_import_lower_layers_only() -> None:
    assert [found for path in MODULES for found in wrong_layers(path)] == []


def test_no_module_imports_one_that_imports_it() -> None:
    """However many stand between them. The packages' own __init__ offer names lazily, and are left out."""
    named = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in MODULES}
    named |= {".".join(path.relative_to(CHAPTERS.parent).with_suffix("").parts): path for path in OF_CHAPTERS}
    graph = {
        name: {known for one in imports(path) for known in (one, one.rpartition(".")[0]) if known in named} - {name}
        for name, path in named.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(f"a circle of imports: {' <- '.join(circle.args[1])}")


@pytest.mark.parametrize("path", OF_CHAPTERS, ids=lambda path: path.name)
def test_what_chapters_import_uses_worlds_and_pictures_alone(path: Path) -> None:
    allowed = {*LAYERS[0], *LAYERS[1], *LAYERS[2], "ranks", "nodes", "jobs", "compute"}  # as a program of ranks does
    more = {
        "planner": {"exercises"},
        "plans": {"exercises"},
        "ask": {"catalog", "progress", "quiz"},
        "kept": {"catalog"},
    }
    allowed |= more.get(path.stem, set())
    assert used_parts(path) <= allowed


@pytest.mark.parametrize(
    ("module", "where", "why"),
    [
        ("torch", IN_THE_BOX, "torch is for the learner's processes; the grading process compares raw bytes"),
        ("pickle", UNPICKLE, "nothing that came from a box is ever unpickled"),
    ],
)
def test_what_is_for_the_box_alone(module: str, where: set[str], why: str) -> None:
    using = {
        str(path.relative_to(PACKAGE)) for path in MODULES if module in {name.split(".")[0] for name in imports(path)}
    }
    assert using <= where, why


def test_every_folder_says_what_lives_there() -> None:
    for folder in [PACKAGE, *(path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__")]:
        if any(folder.glob("*.py")):
            assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text())), f"{folder.name} has no docstring"


def test_no_future_of_ours_is_in_the_learners_code() -> None:
    """compile() otherwise takes `from __future__ import annotations` over from the module that calls it. Annotations
    are then strings in a submission that says no such thing, and FastAPI does not find what they refer to."""
    calls = [
        (path, node)
        for path in MODULES if "compile(" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "compile"
    ]  # fmt: skip
    assert len(calls) > 5
    for path, node in calls:
        assert any(each.arg == "dont_inherit" for each in node.keywords), f"{path}, line {node.lineno}"
