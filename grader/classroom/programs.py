"""A program of the user's own, as `rankup run` is told of it: its text, what of it runs, and what it sees."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader import submission
from grader.ranks.program import Place
from grader.sandbox.folder import Folder, NotShown
from grader.sandbox.program import MAIN
from grader.says import some
from grader.submission import BadRequest, Submission

PLAIN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


@dataclass(frozen=True)
class Named:
    """A program: `function` is what each rank calls, or MAIN, `place` where it works. `unseen` says why it sees none of
    the files that lie next to it, if so."""

    submission: Submission
    function: str
    place: Place
    unseen: str = ""

    @property
    def title(self) -> str:
        return self.submission.name if self.function == MAIN else self.function


def named(what: str, arguments: tuple[str, ...] = (), as_module: bool = False, folder: Path | None = None) -> Named:
    """The program that FILE, FILE:FUNCTION or, `as_module`, a module's name means. Raises BadRequest.

    Its files are those of `folder`, by default those next to it; of a module, those of the current folder.
    """
    name, function = (what, "") if as_module else _split(what)
    path = _module(name) if as_module else Path(name)
    handed_in = submission.read(path, [function or "main"])
    if handed_in.broken is not None:
        raise BadRequest(handed_in.broken.message.rstrip("."))
    called = function_of(handed_in, function or None) if function or not as_module else MAIN
    path = path.resolve()
    imports = Path.cwd() if as_module else path.parent
    shown, unseen = _shown(folder or imports, path, folder is not None)
    package = None if not as_module else name if path.name == "__main__.py" else name.rpartition(".")[0]
    return Named(handed_in, called, Place(str(path), str(imports), arguments, package, shown), unseen)


def gone(written: tuple[str, ...], program: Named) -> str:
    """What became of the files that a program wrote, as a sentence; "" where it wrote none."""
    if not written or program.place.folder is None:
        return ""
    return (
        f"The program wrote {some(written, 3)} into {program.place.folder.path} in its sandbox, so it is gone now. To "
        "keep what it writes, run it without a sandbox: RANKUP_SANDBOX=none."
    )


def _split(what: str) -> tuple[str, str]:
    name, _, function = what.rpartition(":") if not Path(what).exists() else (what, "", "")
    return name or what, function


def _module(name: str) -> Path:
    """The file of a module that is found from here."""
    at = Path(*name.split("."))
    found = [path for path in (at.with_suffix(".py") if at.name else at, at / "__main__.py") if path.is_file()]
    if not found:
        raise BadRequest(f"no module {name} can be run from this folder: there is neither {at}.py nor {at}/__main__.py")
    return found[-1] if (at / "__init__.py").exists() else found[0]


def _shown(folder: Path, path: Path, asked: bool) -> tuple[Folder | None, str]:
    """What is shown of the machine, or why that is nothing. Raises BadRequest where it was asked for by name."""
    if asked and not folder.is_dir():
        raise BadRequest(f"{folder}: no such folder")
    if asked and not path.resolve().is_relative_to(folder.resolve()):
        raise BadRequest(f"{path.name} does not lie in {folder}: name a folder that it lies in")
    try:
        return Folder.of(folder), ""
    except NotShown as why:
        if asked:
            raise BadRequest(f"{why}, so the program may not see it; name a folder of the program's own") from None
        return None, str(why)


def function_of(handed_in: Submission, name: str | None) -> str:
    """What each rank is to call: the function called `name`, or without one MAIN for a program that does something when
    it is run, else the file's main(), or else its only function.

    Raises BadRequest if there is none, or if it cannot be called without arguments.
    """
    try:
        tree = ast.parse(handed_in.source)
    except (SyntaxError, ValueError, RecursionError):
        return name or "main"  # the run says what is wrong with the text
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name is None and _is_script(tree, defined) and handed_in.name.endswith(".py"):
        return MAIN
    if name is None:
        free = [found for found, node in defined.items() if not _required(node)]
        name = "main" if "main" in defined else free[0] if len(free) == 1 else None
        if name is None:
            which = f"choose from {', '.join(free)}" if free else "none in the file can be called without arguments"
            raise BadRequest(f"say which function to run, as {handed_in.name}:FUNCTION; {which}")
    if name not in defined and name not in (bound := set(_bound(tree))) and "*" not in bound:
        near = difflib.get_close_matches(name, defined, 1, 0.5)
        which = f"; did you mean {handed_in.name}:{near[0]}?" if near else ""
        raise BadRequest(f"{handed_in.name} defines no function {name}{which}")
    node = defined.get(name)
    if node is not None and _required(node):
        raise BadRequest(
            f"{name}({', '.join(_required(node))}) takes arguments; write a function without arguments that calls "
            f"{name}, and run that function"
        )
    return name


def _is_script(tree: ast.Module, defined: dict[str, ast.FunctionDef]) -> bool:
    """Whether running the file does more than to define functions. A main() that nothing at the top calls, in a file
    that does not ask for its __name__, was meant to be called."""
    active = [node for node in tree.body if not isinstance(node, PLAIN) and not _is_text(node)]
    names = {node.id for each in active for node in ast.walk(each) if isinstance(node, ast.Name)}
    uncalled = "main" in defined and not _required(defined["main"]) and not names & {"main", "__name__"}
    return bool(active or not defined) and not uncalled


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _bound(tree: ast.Module) -> Iterator[str]:
    """The names that anything in a file binds."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _required(node: ast.FunctionDef) -> list[str]:
    """The names of a function's parameters that have no default."""
    plain = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    keyword = [arg.arg for arg, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value is None]
    return plain[: len(plain) - len(node.args.defaults)] + keyword
