"""Runs the learner's script under torch's elastic agent, as torchrun does, and kills its workers at file operations.

Runs in the supervisor, which never loads the script. The agent is the one that torchrun starts, with the same rendezvous
and restarts; its workers are forked from the warm process in place of being started cold, which saves seconds each.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import torch
from torch.distributed.elastic.multiprocessing.api import SignalException

from grader.ranks import learner
from grader.ranks.lives import Lives, Raised
from grader.ranks.lives.life import told as told_of
from grader.ranks.lives.watch import Step

RANKS = 2
PATIENCE_SECONDS = 20.0  # the agent may wait that long for a worker that is to end
CPU_SECONDS = 5  # of a worker
AGENTS_CPU_SECONDS = 60
SHARED_MEMORY = Path("/dev/shm")  # where the agent's semaphores are, also in a box that shares it with others


def _script(code: types.CodeType, scratch: str, arguments: list[str]) -> None:
    """In a worker: run the script as Python runs a file."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    module = types.ModuleType("__main__")
    module.__file__ = os.path.join(scratch, code.co_filename)
    sys.modules["__main__"] = module
    sys.argv = [code.co_filename, *arguments]
    torch.manual_seed(0)
    if any(event["why"] == "stuck" for event in _notes(scratch)):
        sys.exit(1)  # a restart would not end either
    try:
        exec(code, module.__dict__)
    except SystemExit as left:
        if left.code not in (0, None):
            _note(scratch, code, RuntimeError(f"the script left with exit status {left.code}"))
            raise
    except SignalException:  # the agent ends this worker, because another one is gone
        raise
    except BaseException as error:
        learner.print_traceback(error)
        _note(scratch, code, error)
        raise


def _note(scratch: str, code: types.CodeType, error: BaseException) -> None:
    told = told_of(error, code.co_filename, "call")
    note = Path(scratch, f"note-{os.environ['RANK']}-{os.getpid()}")
    note.write_text(json.dumps(told))
    note.rename(note.with_suffix(".json"))  # the agent may end this process at any moment


def _notes(scratch: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(Path(scratch).glob("note-*.json"))]


def _agent(functions: dict[str, Any], scratch: str, arguments: list[str], restarts: int) -> str:
    """What torchrun does on one machine: an agent that starts the workers, and all of them anew when one is gone."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    dynamic_rendezvous.get_method_name = lambda *_: ""  # for events that nobody records; it takes a second of CPU time
    os.environ.update(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1", OMP_NUM_THREADS="1")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        os.environ.pop(name, None)
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=RANKS, run_id="job", rdzv_backend="c10d", rdzv_endpoint="127.0.0.1:0",
        max_restarts=restarts, monitor_interval=0.05, start_method="fork", local_addr="127.0.0.1", shutdown_timeout=5,
    )  # fmt: skip
    try:
        elastic_launch(config, _script)(functions["$code"], scratch, arguments)
    except ChildFailedError:
        return "failed"
    return "finished"


class Killer:
    """Kills workers as planned: one after another, each once, counting anew after each.

    A kill is (what, rank, number): before the rank's line of its `number`-th step, or of its process's operations on
    files that are no logs, before the `number`-th after its third step.
    """

    def __init__(self, folder: Path, kills: list[list[Any]]) -> None:
        self.folder, self.kills = folder, kills
        self.ranks: dict[int, int] = {}  # by process
        self.lines: dict[int, int] = {}
        self.others: dict[int, int] = {}
        self.done: list[dict[str, Any]] = []

    def __call__(self, step: Step) -> bool:
        if step.name.startswith("steps-") and step.name.endswith(".jsonl"):
            rank = self.ranks[step.process] = int(step.name.removeprefix("steps-").removesuffix(".jsonl") or 0)
            if step.call.startswith(("write", "pwrite")):
                self.lines[rank] = self.lines.get(rank, 0) + 1
                return self._struck("line", rank, self.lines[rank], step)
            return False
        rank = self.ranks.get(step.process, -1)
        if self.lines.get(rank, 0) < 3:
            return False
        self.others[rank] = self.others.get(rank, 0) + 1
        return self._struck("checkpoint", rank, self.others[rank], step)

    def _struck(self, what: str, rank: int, number: int, step: Step) -> bool:
        if not self.kills or self.kills[0] != [what, rank, number]:
            return False
        self.kills.pop(0)
        writes = self.others.get(rank, 0) > 0
        self.lines, self.others, self.ranks = {}, {}, {}
        self.done.append(
            {
                "what": what,
                "rank": rank,
                "writes": writes,
                "call": f"{step.call} {step.name}",
                "logs": logs(self.folder),
            }
        )
        return True


def logs(folder: Path) -> list[list[Any]]:
    """Per rank the lines of its log, each [step, rows]; a line that is none is []."""
    return [_lines(folder / f"steps-{rank}.jsonl") for rank in range(RANKS)]


def _lines(path: Path) -> list[Any]:
    found: list[Any] = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            told = json.loads(line)
            found.append([int(told["step"]), [int(row) for row in told["rows"]]])
        except (ValueError, KeyError, TypeError):
            found.append([])
    return found


def job(
    lives: Lives, x: torch.Tensor, y: torch.Tensor, epochs: int, batch: int, kills: list[list[Any]]
) -> dict[str, Any]:
    """One job of torchrun: its logs at each kill and at the end, and the final parameters.

    One that stands still is tried once more: torch's agent forks while it has threads, and may leave a worker stuck.
    """
    try:
        return _job(lives, x, y, epochs, batch, kills)
    except Raised as raised:
        if "stands still" not in raised.event["text"]:
            raise
    return _job(lives, x, y, epochs, batch, kills)


def _job(
    lives: Lives, x: torch.Tensor, y: torch.Tensor, epochs: int, batch: int, kills: list[list[Any]]
) -> dict[str, Any]:
    """One job of torchrun, in a directory of its own."""
    scratch = Path(tempfile.mkdtemp(prefix="job-"))
    folder = scratch / "work"
    folder.mkdir()
    torch.save({"x": x, "y": y}, scratch / "data.pt")
    arguments = ["--data", str(scratch / "data.pt"), "--work", str(folder), "--epochs", str(epochs)]
    arguments += ["--batch-size", str(batch)] if batch else []
    killer = Killer(folder, [list(kill) for kill in kills])
    life = lives.run(
        _agent, str(scratch), arguments, len(kills) + 1, folder=folder, rooms=[scratch, SHARED_MEMORY], strike=killer,
        patience=PATIENCE_SECONDS, cpu_seconds=AGENTS_CPU_SECONDS,
    )  # fmt: skip
    ending = life.values[0]
    own = [event for event in _notes(str(scratch)) if event["why"] != "peer"]
    if ending != "finished" and not killer.done:
        raise Raised(own[0] if own else {"event": "raised", "text": "torchrun gave up on the job", "why": "ended"})
    told = {
        "ending": ending, "raised": [f"{event['type']}: {event['text']}" for event in own][:1], "kills": killer.done,
        "logs": logs(folder), "final": final(folder / "final.pt"),
    }  # fmt: skip
    shutil.rmtree(scratch)
    return told


def final(path: Path) -> Any:
    """The names and the tensors of a state_dict that was saved, or what is there in its place."""
    if not path.exists():
        return "no final.pt"
    try:
        state = torch.load(path, weights_only=True)
        return {str(name): tensor for name, tensor in state.items()}
    except Exception as error:
        return f"a final.pt that cannot be loaded ({type(error).__name__})"
