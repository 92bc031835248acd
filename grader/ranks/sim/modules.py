"""A program's own modules, one copy for each simulated rank: elsewhere a rank is a process, which imports its own."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import Any

from grader.sandbox.program import MAIN


class Modules:
    """What is exchanged in sys.modules whenever another rank begins to run: the program as __main__, and whatever it
    imports from where it lies. `found` says whether there is any of the latter, or going to be, by its text."""

    def __init__(self, place: dict[str, Any], source: str) -> None:
        shown = place["folder"] or {"path": place["imports"], "kept": []}
        self._inside = tuple(os.path.join(each, "") for each in (shown["path"], place["imports"]))
        self._kept = tuple(os.path.join(each, "") for each in shown["kept"])
        self._known, self._own = set(sys.modules), {MAIN}
        self._count = len(self._known)
        beside: set[str] = set()
        with contextlib.suppress(OSError):  # where it lies may be nothing that is shown
            beside = {name.removesuffix(".py") for name in os.listdir(place["imports"])}
        beside -= {os.path.basename(place["path"]).removesuffix(".py")}
        self.found = not beside.isdisjoint(re.findall(r"\w+", source))

    def swap(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """From one rank's to another's; `before` and `after` are the ranks' data."""
        if len(sys.modules) != self._count:
            self._look()
        before["modules"] = {name: sys.modules.pop(name) for name in self._own if name in sys.modules}
        sys.modules.update(after.get("modules", {}))
        self._count = len(sys.modules)

    def _look(self) -> None:
        """Who is new: those that come from the program's folder are its own."""
        for name in sys.modules.keys() - self._known:
            self._known.add(name)
            module = sys.modules[name]
            file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
            if str(file).startswith(self._inside) and not str(file).startswith(self._kept):
                self._own.add(name)
                self.found = True
