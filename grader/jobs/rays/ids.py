"""Ray's random ids where processes are forked.

Ray seeds its generator when the first id is drawn, and a fork copies it. Where the supervisor itself has drawn one, all
that it forks draw the same ids: of two workers that start at the same time each makes the object that it warms up the
store with, and the second one aborts, for which Ray waits a minute.
"""

from __future__ import annotations

import importlib
import os
from typing import Any


def leave_the_generator_alone() -> None:
    """Have no id drawn by Ray's generator while modules are imported: a class with @ray.remote draws one."""
    actors: Any = importlib.import_module("ray.actor")
    kind = actors.ActorClassID

    class Drawn(kind):  # type: ignore[misc, valid-type]
        @classmethod
        def from_random(cls) -> Any:
            return kind(os.urandom(kind.size()))

    actors.ActorClassID = Drawn
