"""What this machine can run, what is missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

State = Literal["ok", "missing", "optional"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `advice` says what to do where it is not ok."""

    name: str
    state: State
    detail: str
    advice: str = ""


def examine() -> list[Finding]:
    """Look at everything that the course's parts need. Starts a real run of two ranks."""
    return [_python(), _package("torch"), _package("nbgrader"), _package("jupyterlab"), _gloo(), _cores(), _memory(),
            _bubblewrap(), _java(), _gpus()]  # fmt: skip


def _python() -> Finding:
    return Finding("python", "ok", ".".join(str(part) for part in sys.version_info[:3]))


def _package(name: str) -> Finding:
    try:
        return Finding(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "missing", "not installed", "run make demo, which sets up .venv")


def _gloo() -> Finding:
    """Two real ranks send each other a tensor."""
    from grader.ranks.processes import BoxFailed, Processes
    from grader.ranks.program import Program, same_for_all

    source = (
        "import torch\nimport torch.distributed as dist\n"
        "def hello():\n    t = torch.ones(1)\n    dist.all_reduce(t)\n    return t.item()\n"
    )
    try:
        engine = Processes()
        try:
            run = engine.run(Program.of(source, "doctor.py", "hello"), 2, [same_for_all(2)])
        finally:
            engine.close()
    except (BoxFailed, OSError) as error:
        return Finding("gloo", "missing", str(error), "real ranks cannot be started here; is this Linux?")
    if run.finished and run.calls[0].returned == (2.0, 2.0):
        return Finding("gloo", "ok", "two ranks met")
    why = run.diagnoses[0].message if run.diagnoses else "two ranks disagreed"
    return Finding("gloo", "missing", why, "check that the loopback interface is up")


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    if cores >= 2:
        return Finding("cores", "ok", str(cores))
    return Finding("cores", "optional", str(cores), "two are recommended; everything works, more slowly")


def _memory() -> Finding:
    try:
        line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return Finding("memory", "optional", "unknown", "4 GiB are recommended")
    gib = int(line.split()[1]) / 2**20
    if gib >= 4:
        return Finding("memory", "ok", f"{gib:.1f} GiB available")
    return Finding("memory", "optional", f"{gib:.1f} GiB available", "4 GiB are recommended")


def _bubblewrap() -> Finding:
    path = shutil.which("bwrap")
    if path:
        return Finding("bubblewrap", "ok", path)
    advice = "install it with the system's package manager before you grade strangers' code"
    return Finding("bubblewrap", "optional", "not installed", advice)


def _java() -> Finding:
    path = shutil.which("java")
    if path:
        return Finding("java", "ok", path)
    return Finding("java", "optional", "not installed", "only the Spark exercises need it; they bring their own")


def _gpus() -> Finding:
    devices = sorted(Path("/dev").glob("nvidia[0-9]*"))
    if devices:
        return Finding("gpus", "ok", f"{len(devices)} NVIDIA")
    return Finding("gpus", "optional", "none", "everything runs on gloo; NCCL needs a GPU per rank")
