"""Runs the learner's script under torch's elastic agent, as torchrun does, and kills its workers at file operations."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from grader.ranks.lives import Lives, Raised
from grader.ranks.lives.torchrun import (
    AGENTS_CPU_SECONDS,
    PATIENCE_SECONDS,
    SHARED_MEMORY,
    agent,
    final,
    first_raised,
    lines,
    own_errors,
    prepared,
)
from grader.ranks.lives.watch import Step

RANKS = 2


class Killer:
    """Kills workers as planned: one after another, each once, counting anew after each.

    A kill is (what, rank, number): before the rank's line of its `number`-th step, or of its process's operations on
    files that are no logs, before the `number`-th after its third step. "final" is while any rank that has trained
    writes the file that is called so, when no step is left to do: before its second operation on it, or before a file
    gets this name. "between" is between two files of a checkpoint, after the rank's third step: it has renamed one since
    its last line, and is about to change another. Who has one file only is not killed there.
    """

    def __init__(self, folder: Path, kills: list[list[Any]]) -> None:
        self.folder, self.kills = folder, kills
        self.ranks: dict[int, int] = {}  # by process
        self.lines: dict[int, int] = {}
        self.others: dict[int, int] = {}
        self.finals: dict[int, int] = {}
        self.renamed: dict[int, str] = {}  # the last file that got its name since the rank's last line
        self.done: list[dict[str, Any]] = []

    def __call__(self, step: Step) -> bool:
        if step.name.startswith("steps-") and step.name.endswith(".jsonl"):
            rank = self.ranks[step.process] = int(step.name.removeprefix("steps-").removesuffix(".jsonl") or 0)
            if step.call.startswith(("write", "pwrite")):
                self.lines[rank] = self.lines.get(rank, 0) + 1
                self.renamed.pop(rank, None)
                return self._struck("line", rank, self.lines[rank], step)
            return False
        rank = self.ranks.get(step.process, -1)
        if self.kills and self.kills[0][0] == "final":
            return rank >= 0 and step.name.startswith("final") and self._final(rank, step)
        if self.lines.get(rank, 0) < 3:
            return False
        self.others[rank] = self.others.get(rank, 0) + 1
        if self._another(self.renamed.get(rank, ""), step.name) and self._struck("between", rank, 1, step):
            return True
        if step.call.startswith("rename"):
            self.renamed[rank] = step.name
        return self._struck("checkpoint", rank, self.others[rank], step)

    def _final(self, rank: int, step: Step) -> bool:
        self.finals[rank] = self.finals.get(rank, 0) + 1
        begun = self.finals[rank] > 1 or step.call.startswith("rename")
        return begun and self._struck("final", rank, 1, step)

    @staticmethod
    def _another(renamed: str, name: str) -> bool:
        """Whether it is neither the file that was renamed, nor a folder that it is in, nor the final parameters."""
        return bool(renamed and name) and not f"{renamed}/".startswith(f"{name}/") and not name.startswith("final")

    def _struck(self, what: str, rank: int, number: int, step: Step) -> bool:
        if not self.kills or self.kills[0] not in ([what, rank, number], [what, -1, number]):
            return False
        self.kills.pop(0)
        writes = self.others.get(rank, 0) > 0
        renamed = self.renamed.get(rank, "")
        self.lines, self.others, self.ranks, self.finals, self.renamed = {}, {}, {}, {}, {}
        self.done.append(
            {
                "what": what,
                "rank": rank,
                "writes": writes,
                "call": f"{step.call} {step.name or ('DIR' if step.call in ('fsync', 'fdatasync') else '')}".rstrip(),
                "name": step.name,
                "renamed": renamed,
                "logs": logs(self.folder),
            }
        )
        return True


def logs(folder: Path) -> list[list[Any]]:
    """Per rank the lines of its log, each [step, rows]; a line that is none is []."""
    return [lines(folder / f"steps-{rank}.jsonl") for rank in range(RANKS)]


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
    options = {"epochs": epochs} | ({"batch-size": batch} if batch else {})
    scratch, folder, arguments = prepared(x, y, options)
    killer = Killer(folder, [list(kill) for kill in kills])
    life = lives.run(
        agent, str(scratch), arguments, RANKS, len(kills) + 1, folder=folder, rooms=[scratch, SHARED_MEMORY], strike=killer,
        patience=PATIENCE_SECONDS, cpu_seconds=AGENTS_CPU_SECONDS,
    )  # fmt: skip
    ending = life.values[0]
    own = own_errors(str(scratch))
    if ending != "finished" and not killer.done:
        raise Raised(own[0] if own else {"event": "raised", "text": "torchrun gave up on the job", "why": "ended"})
    told = {
        "ending": ending, "raised": first_raised(own), "kills": killer.done,
        "logs": logs(folder), "final": final(folder / "final.pt"),
        "writes": [killer.lines.get(rank, 0) for rank in range(RANKS)],  # of the logs, since the last kill
    }  # fmt: skip
    shutil.rmtree(scratch)
    return told
