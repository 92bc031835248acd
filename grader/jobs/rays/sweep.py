"""What a grading leaves on a Ray's disk, which is the next one's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path


def found(folder: Path) -> set[str]:
    """Every path below the folder; links are not followed."""
    return {os.path.join(at, name) for at, folders, files in os.walk(folder) for name in (*folders, *files)}


def sweep(folder: Path, kept: Collection[str]) -> None:
    """Remove all below the folder that is not `kept`: workers' logs, trials' folders, what a learner has written."""
    for path in sorted(found(folder) - {*kept}, reverse=True):  # what is in a folder before the folder
        with contextlib.suppress(OSError):
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            else:
                os.unlink(path)
