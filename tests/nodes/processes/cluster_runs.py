"""Runs of small programs on real processes, each of which must leave nothing behind."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

import psutil

from grader.nodes.processes import run
from grader.nodes.processes.network import Weather
from grader.nodes.processes.run import Outcome, Settings
from grader.nodes.workloads.registry import WORKLOADS

PROGRAMS = Path(__file__).parent.parent / "programs"
ROOT = Path(__file__).parents[3]
MARK = "RANKUP_TEST_MARK"


def program(*words: str) -> tuple[str, ...]:
    """The command that runs one of the programs; without site-packages it starts at once."""
    return (sys.executable, "-S", str(PROGRAMS / words[0]), *words[1:])


def speaking(what: str) -> tuple[str, ...]:
    """The command that runs a Node class of the programs."""
    return (sys.executable, "-m", "grader.nodes.speak", str(PROGRAMS / what))


def marked(mark: str) -> list[psutil.Process]:
    """All processes that have this mark in their environment, wherever they went."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def environment(mark: str) -> dict[str, str]:
    return {**os.environ, MARK: mark, "PYTHONPATH": str(ROOT)}


def play(
    workload: str, command: tuple[str, ...], *, nodes: int = 2, weather: Weather | None = None, **more: object
) -> Outcome:
    """A short run; fails if a process of it is still there afterwards."""
    mark = uuid.uuid4().hex
    options = {"seconds": 0.5, "rate": 60.0, "seed": 1, "init_seconds": 20.0, **more}
    settings = Settings(
        WORKLOADS[workload],
        command,
        nodes=nodes,
        weather=weather or Weather(),
        environment=environment(mark),
        **options,  # type: ignore[arg-type]
    )
    outcome = run.play(settings)
    assert marked(mark) == []
    return outcome
