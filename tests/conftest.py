"""What tests share: one warm engine a worker, a progress folder of their own, and at the end the matrix of mutants."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import matrix
import pytest
from hypothesis import settings

from grader.authoring import verdicts
from grader.ranks.engines import Engines

settings.register_profile("rankup", deadline=None)  # a busy machine is no failure
settings.load_profile("rankup")


def pytest_configure() -> None:
    """Choose the share of all wrong submissions that is tried today, once for all workers. Have Ctrl-C end what the
    tests start: a shell that starts the tests in the background has it ignored, and processes inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["RANKUP_NO_SERVICE"] = "1"  # what a test starts ends with it
    os.environ.setdefault("RANKUP_SHARE", str(date.today().toordinal() % verdicts.SHARES + 1))


def pytest_collection_finish() -> None:
    """Thousands of tests and torch stay to the end: garbage is looked for in what came after them."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    return f"of all wrong submissions a share is tried: RANKUP_SHARE={os.environ['RANKUP_SHARE']} repeats it"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print which mutants were caught by which checks."""
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
    told = [value for report in reports for name, value in report.user_properties if name == matrix.PROPERTY]
    if told:
        terminalreporter.section(f"{len(told)} mutants: {matrix.LEGEND}")
        for line in matrix.lines(map(matrix.row, told)):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    """Warm engines, ended with the session."""
    with Engines() as warm:
        yield warm


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
