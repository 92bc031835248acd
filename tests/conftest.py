"""What tests share: one warm engine a worker, and a progress folder of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.ranks.engines import Engines
from grader.ranks.processes import Processes


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    """Warm engines, ended with the session."""
    with Engines() as warm:
        yield warm


@pytest.fixture(scope="session")
def engine(engines: Engines) -> Processes:
    """The gloo engine."""
    return engines.gloo


@pytest.fixture(autouse=True, scope="session")
def _own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tests never touch the progress of the person who runs them."""
    folder = tmp_path_factory.mktemp("data")
    before = os.environ.get("RANKUP_DATA")
    os.environ["RANKUP_DATA"] = str(folder)
    yield folder
    if before is None:
        del os.environ["RANKUP_DATA"]
    else:
        os.environ["RANKUP_DATA"] = before
