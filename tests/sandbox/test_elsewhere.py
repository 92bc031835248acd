"""Where there is no Linux: all that is simulated is graded, and of the rest it is said what it needs. Nobody has a Mac
here, so what only Linux has is taken away from a Python of Linux (see elsewhere/)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from grader.authoring import verdicts
from grader.registry import find
from grader.worlds.nodes import Nodes, NodesAndCalls
from grader.worlds.ranks import Crashes, Ranks

ROOT = Path(__file__).parents[2]
TAKEN = Path(__file__).parent / "elsewhere"
TODAY = int(os.environ["RANKUP_SHARE"])  # see conftest
AT_ONCE = "parallel_plan"  # the one that is tried each time


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with our packages, in which what only Linux has is gone; so is it in all that it starts."""
    prefix = tmp_path_factory.mktemp("mac")
    packages = prefix / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    packages.mkdir(parents=True)
    (prefix / "bin").mkdir()
    (prefix / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (prefix / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    (packages / "a.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    (packages / "b.pth").write_text(f"{TAKEN}\nimport elsewhere\n")
    return prefix / "bin" / "python"


@pytest.fixture(scope="module")
def grader(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A process there that grades references, in an order of ours."""
    folder = tmp_path_factory.mktemp("graded")
    process = subprocess.Popen([python, TAKEN / "grade.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               cwd=folder)  # fmt: skip
    yield process
    process.communicate()
    assert process.returncode == 0


def references() -> Iterator[ParameterSet]:
    """Those that are quick each day, each of the others on one day in six."""
    for path in sorted(ROOT.glob("solutions/*/*.ipynb")):
        daily = find(path.stem).cost == "second" or verdicts.share(path.stem, verdicts.SHARES) == TODAY
        marks = [] if path.stem == AT_ONCE else [pytest.mark.heavy if daily else pytest.mark.soak]
        yield pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", list(references()))
def test_what_is_simulated_is_graded_and_the_rest_says_what_it_needs(path: Path, grader: subprocess.Popen[str]) -> None:
    assert grader.stdin is not None
    assert grader.stdout is not None
    print(path, file=grader.stdin, flush=True)
    told: dict[str, Any] = json.loads(grader.stdout.readline())
    world = find(path.stem).world
    assert told["mode"] == "none"
    if isinstance(world, (Ranks, Nodes, NodesAndCalls)) and not isinstance(world, Crashes):
        assert told["points"] == told["of"], told["said"]
    else:
        assert told["points"] == 0
        assert all("Linux" in said for said in told["said"].values()), told["said"]


@pytest.mark.heavy
def test_commands_work_and_the_service_ends_with_what_it_started(python: Path, tmp_path: Path) -> None:
    import psutil

    before = {process.pid for process in psutil.process_iter()}  # another test may have begun what grades there
    program = "import torch\nimport torch.distributed as dist\n\n\ndef hello():\n    t = torch.ones(1)\n"
    (tmp_path / "hello.py").write_text(program + "    dist.all_reduce(t)\n    return t\n")
    (tmp_path / "endless.py").write_text("def hello():\n    while True:\n        pass\n")
    short = Path(tempfile.mkdtemp(prefix="mac"))  # a socket's path has at most some hundred letters
    home = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "", "TMPDIR": str(short), "RANKUP_DATA": str(tmp_path)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RANKUP"))}

    def rankup(*arguments: str) -> tuple[int, str]:
        done = subprocess.run([python, "-m", "grader.daemon.client", *arguments], cwd=tmp_path, env={**kept, **home},
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        return done.returncode, done.stdout

    try:
        for _ in range(2):  # the second time by the service that the first has started
            status, said = rankup("run", "hello.py:hello", "--ranks", "4")
            assert (status, "finished  sim" in said) == (0, True), said
        status, said = rankup("run", "endless.py:hello", "--ranks", "2", "--cpu", "1")
        assert (status, "CPU time" in said) == (1, True), said
        status, said = rankup("run", "hello.py:hello", "--ranks", "2", "--engine", "gloo")
        assert (status, said) == (2, "rankup: gloo runs ranks as real processes, and rankup does that on Linux only\n")
        status, said = rankup("doctor")
        assert (status, "64 ranks summed" in said, "only Linux can isolate" in said) == (0, True, True), said
    finally:
        sockets = [*short.glob("rankup-*/*.sock")]
        for path in sockets:
            path.unlink()  # the service looks for its own, and ends
    assert sockets
    here = [each for each in psutil.process_iter() if each.pid not in before and _below(each, python)]
    _, left = psutil.wait_procs(here, timeout=30)
    assert left == []
    shutil.rmtree(short)


def _below(process: Any, python: Path) -> bool:
    import psutil

    try:
        return str(python) in process.cmdline()
    except psutil.Error:
        return False
