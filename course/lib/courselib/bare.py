"""Ranks that nothing watches: plain processes of this machine on gloo, as a job has them, without `play`'s recording.

    bare(broken, (with_arguments, 1, "a"))  # for each call what became of each rank, as a line of text

`play` stops where the ranks' calls do not fit together, and says so. Here they go on, and what happens is shown.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

STARTING = 60  # seconds for the processes to start, on a busy machine
_PLACE = re.compile(r"(what\(\):\s*)?\[(enforce fail at )?/\S+:\d+\]\s*")  # in gloo's sources


def bare(*calls: Callable[[], Any] | tuple[Any, ...], ranks: int = 2, patience: int = 20) -> list[list[str]]:
    """Make each call on so many new processes: what it returned, raised, or which signal ended it, by rank.

    A call is a function, or one with its arguments (what JSON can hold). A function brings the cell that it stands in.
    The processes are forks of one that has imported torch; after `patience` seconds in one call they are ended.
    """
    cells = [_cell(*call) if isinstance(call, tuple) else _cell(call) for call in calls]
    asked = json.dumps({"cells": cells, "ranks": ranks, "patience": patience})
    command = [sys.executable, "-c", "from courselib import bare; bare.main()"]
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command,
        input=asked,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=STARTING + (patience + 5) * len(calls),
        check=True,
    )
    return [[_PLACE.sub("", line) for line in told] for told in json.loads(done.stdout)]


def _cell(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    return {"source": "".join(inspect.findsource(function)[0]), "name": function.__name__, "arguments": arguments}


def main() -> None:
    """In the process that forks: standard input says what to run, standard output what became of it."""
    import torch
    import torch._dynamo  # DDP and optimizers import it: once here, not on each rank

    torch.set_num_threads(1)
    asked = json.loads(sys.stdin.read())
    with tempfile.TemporaryDirectory() as folder:
        told = []
        for number, cell in enumerate(asked["cells"]):
            here = Path(folder) / str(number)
            here.mkdir()
            started = [_forked(here, rank, cell, asked) for rank in range(asked["ranks"])]
            told.append([_became(here, rank, os.waitpid(pid, 0)[1]) for rank, pid in enumerate(started)])
        sys.stdout.write(json.dumps(told))


def _forked(here: Path, rank: int, cell: dict[str, Any], asked: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.alarm(asked["patience"])
        output = os.open(here / f"{rank}.said", os.O_CREAT | os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        (here / f"{rank}.value").write_text(_called(here, rank, cell, asked))
    except BaseException as error:
        (here / f"{rank}.value").write_text(f"{type(error).__name__}: {str(error).splitlines()[0]}")
    finally:
        os._exit(0)


def _called(here: Path, rank: int, cell: dict[str, Any], asked: dict[str, Any]) -> str:
    import torch.distributed as dist

    dist.init_process_group(
        "gloo",
        init_method=f"file://{here}/store",
        rank=rank,
        world_size=asked["ranks"],
        timeout=timedelta(seconds=asked["patience"] / 2),
    )
    names: dict[str, Any] = {}
    exec(compile(cell["source"], cell["name"], "exec"), names)
    value = names[cell["name"]](*cell["arguments"])
    return str(value.tolist() if hasattr(value, "tolist") else value)


def _became(here: Path, rank: int, status: int) -> str:
    if os.WIFSIGNALED(status):
        said = (here / f"{rank}.said").read_text(errors="replace").strip().splitlines()
        last = next((line.strip() for line in reversed(said) if line.strip()), "")
        name = signal.Signals(os.WTERMSIG(status)).name
        return "stood still, and was ended" if name == "SIGALRM" else f"ended by {name}: {last}".removesuffix(": ")
    value = here / f"{rank}.value"
    return value.read_text() if value.exists() else f"left with exit status {os.WEXITSTATUS(status)}"
