"""A learner's program in the box: the one way to load it, and to tell what it raised. Without torch."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import linecache
import os
import sys
import threading
import traceback
import types
from collections.abc import Callable
from typing import Any

MODULE = "submission"
MAIN = "__main__"  # as a function's name: the whole program, as `python FILE` runs it
MOST_TEXT = 1000  # characters of what is told of an error


def module(source: str, file: str, name: str = MODULE, listed: bool = True) -> types.ModuleType:
    """An empty module that tracebacks can quote `source` for; others can import it by its name where it is listed."""
    made = types.ModuleType(name)
    made.__file__ = file
    if listed:
        sys.modules[name] = made
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return made


def load(code: types.CodeType, source: str, file: str, listed: bool = True) -> types.ModuleType:
    """A program as a module of its own. Raises what its top level raises."""
    made = module(source, file, listed=listed)
    exec(code, made.__dict__)  # the learner's code: this process is its box
    return made


def as_main(code: types.CodeType, source: str, file: str, path: str, package: str | None) -> Callable[[], None]:
    """What runs a program as `python FILE` would, with `path` as its __file__; as `python -m` where it is in a package.

    It raises what the program raises, but for an exit that says that all is well. What the program registers with
    atexit is called when it has ended well.
    """
    made = module(source, file, MAIN)
    made.__file__ = path
    made.__package__ = package
    if package is not None:
        name = os.path.splitext(os.path.basename(path))[0]
        made.__spec__ = importlib.util.spec_from_file_location(f"{package}.{name}".lstrip("."), path)

    def run() -> None:
        sys.modules[MAIN] = made
        _ending.file, _ending.calls = file, []
        atexit.register = _at_its_end  # type: ignore[assignment]
        try:
            exec(code, made.__dict__)
        except SystemExit as error:
            if error.code not in (None, 0):
                raise
        while _ending.calls:
            try:
                _ending.calls.pop()()
            except Exception:
                traceback.print_exc()

    return run


_ending, _register = threading.local(), atexit.register  # of the program that the thread runs


def _at_its_end(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """What a program registers itself is called when it has run: the process ends later, or is not its own."""
    if sys._getframe(1).f_code.co_filename != getattr(_ending, "file", None):
        return _register(call, *args, **kwargs)
    _ending.calls.append(functools.partial(call, *args, **kwargs))
    return call


def line_of(error: BaseException, file: str) -> int | None:
    """The line of the submission in which an error arose: the innermost of its frames in the traceback."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if entry.filename == file]
    return lines[-1] if lines else None


def text_of(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


def raised(error: BaseException, file: str, stage: str) -> dict[str, Any]:
    """The event of an error that left the learner's code when it was compiled ("compile"), loaded, or called."""
    return {
        "event": "raised",
        "stage": stage,
        "type": type(error).__name__,
        "text": text_of(error)[:MOST_TEXT],
        "line": line_of(error, file),
    }
