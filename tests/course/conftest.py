"""Programs that these tests start import what chapters import, also where the package is not installed anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parent.parent.parent / "course" / "lib"


@pytest.fixture(autouse=True, scope="session")
def _library_in_programs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(LIBRARY), prepend=os.pathsep)
        yield
