"""What an exercise brings into a rank beside the submission: functions that call the learner's, and what is banned.

A function that takes a model or an optimizer cannot be called with data alone: the exercise's harness, a module of its
own given as text, makes them there. What it returns is what the ranks say, like any result; it decides nothing.
"""

from __future__ import annotations

import importlib
import linecache
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

FILE = "<harness>"

_forbid: Callable[[str], None] = lambda name: None  # noqa: E731 - of the world that runs now


def load(text: str, submission: types.ModuleType) -> dict[str, Any]:
    """The functions of a harness, by name; `submission` is the learner's module, for them to look into."""
    module = types.ModuleType("harness")
    module.__dict__["submission"] = submission
    sys.modules["harness"] = module
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    exec(compile(text, FILE, "exec"), module.__dict__)
    return {name: value for name, value in vars(module).items() if isinstance(value, types.FunctionType)}


def called(functions: dict[str, Any], header: dict[str, Any]) -> Callable[..., Any]:
    """The function that a call names: the learner's, or the harness's that is given the learner's first."""
    theirs = functions[header["function"]]
    if not header["by"]:
        return theirs  # type: ignore[no-any-return]
    by = functions["$harness"][header["by"]]
    return lambda *arguments: by(theirs, *arguments)


def ban(names: Sequence[str], forbid: Callable[[str], None]) -> None:
    """Have `forbid` called, with its name, where one of these classes is instantiated or functions called.

    Names are dotted ("torch.nn.parallel.DistributedDataParallel"). `forbid` is to raise.
    """
    global _forbid
    _forbid = forbid
    for dotted in names:
        where, _, name = dotted.rpartition(".")
        found = getattr(importlib.import_module(where), name)
        refuse = _refusal(name)
        if isinstance(found, type):
            found.__init__ = refuse  # type: ignore[misc]
            continue
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is found:
                setattr(module, name, refuse)


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        _forbid(name)
        raise AssertionError("a forbidden call goes on")

    return refuse
