"""rankup: graded exercises that run real distributed code, and say exactly what went wrong.

In a notebook: `from grader import check, play`; in a program that is run on ranks: `from grader import compute, track`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing's, which takes long to import
if TYPE_CHECKING:
    from typing import Any

    from grader.classroom.check import check, play
    from grader.ranks.model import compute, track

in_box = False  # whether this process is one of a box, beside graded code; `sandbox.entry` says so
__all__ = ["check", "compute", "play", "track"]


def __getattr__(name: str) -> Any:
    """Imported when asked for: the box imports this package too, and must not load what notebooks need."""
    if name in ("compute", "track"):
        from grader.ranks import model

        return getattr(model, name)
    if name in __all__ and in_box:
        return _not_here(name)
    if name in __all__:
        from grader.classroom import check as module

        module.explain_missing_functions()
        return getattr(module, name)
    raise AttributeError(f"module 'grader' has no attribute {name!r}")


def _not_here(name: str) -> Any:
    """What stands for check() and play() beside graded code, which may import them as other cells do."""

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError(
            f"{name}() was called in the code that is graded, and cannot run there. Call {name}() in another cell"
        )

    return refuse


if "JPY_SESSION_NAME" in os.environ:  # a notebook of JupyterLab
    from grader import reading

    reading.follow()
