"""Runs the learner's script under torch's elastic agents, one for each node, kills a node for good, and lets one join.

Both happen at file operations in the directory that the nodes share, so at steps that the script has logged. What comes
of a job is told as it is: whether that is right is decided outside.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from grader.ranks.lives import Lives, Raised
from grader.ranks.lives.life import Life
from grader.ranks.lives.torchrun import (
    AGENTS_CPU_SECONDS,
    LOCAL,
    SHARED_MEMORY,
    Nodes,
    agent,
    final,
    first_raised,
    lines,
    own_errors,
    prepared,
)
from grader.ranks.lives.watch import Step, Strike

RESTARTS = 4
PATIENCE_SECONDS, HOPELESS_SECONDS = 30.0, 12.0  # without a file operation; after two jobs that stood still
RANKS = 2  # at most
ENOUGH = 3  # checkpoints that damaged nothing, after which another one is cut off anywhere
LATER = 2  # steps after the one that was drawn, at which a node is lost that has written no checkpoint


def logs(folder: Path) -> list[list[Any]]:
    """Per rank the lines of its log, each [step, rows, world, attempt]; a line that is none is []."""
    return [lines(folder / f"steps-{rank}.jsonl", "world", "attempt") for rank in range(RANKS)]


class Nemesis:
    """Has a node lost, and then one join, as planned; either may be None.

    loss: ("line", step, 0): the node that writes checkpoints is killed before it logs that step, or a later one.
    loss: ("other", step, 0): the node that writes none is held before that line until the rest of the job does nothing more,
    and is then killed: a checkpoint that needs no line of it is written by then.
    loss: ("checkpoint", step, drawn): it is killed in the middle of the checkpoint of that step, or a later one: when
    something that it wrote before the step is damaged or gone, or else before a drawn one of its file operations.
    join: a step before whose line the only rank is held, until its agent ends it because a node has come. After a loss it
    is held behind its first line, before it saves anything: then two starts begin with the same step, and log it.
    late: after the loss one joins when the other, which has logged since, begins to write the final parameters.
    Where one has joined after a loss, a node is killed once more if its worker damages a file before it logs anything: if
    it has emptied the counter of starts, for example, and not written it.
    """

    def __init__(
        self, folder: Path, nodes: Nodes, began: int, loss: list[Any] | None, join: int | None, late: bool = False
    ) -> None:  # fmt: skip
        self.folder, self.nodes, self.began, self.loss, self.join, self.late = folder, nodes, began, loss, join, late
        self.end: dict[str, Any] | None = None  # what was to be done when a node joined so late, after which attempt
        self.others: dict[int, int] = {}  # by node: operations on files that are no logs, since its last line
        self.worth: dict[int, int] = {}  # the same, the last time that there were any: those of a checkpoint
        self.touched: dict[int, set[str]] = {}  # by node: the names of those files
        self.there: dict[int, dict[str, tuple[int, int, int]]] = {}  # what was there of them at its last line
        self.harmless: dict[int, int] = {}  # by node: checkpoints that damaged nothing
        self.unsafe: set[int] = set()  # nodes of which one did
        self.at: dict[int, int] = {}  # by node: the step of its last line
        self.ranks: dict[int, int] = {}  # by node
        self.write_them: set[int] = set()  # nodes that have written a checkpoint
        self.waits: int | None = None  # the process that is held until the others do nothing more
        self.workers: set[int] = set()  # processes that have logged
        self.before_it: set[int] = set()  # those of them that had when a node was lost: they are to end
        self.logged: set[int] = set()  # those that have logged after the loss
        self.old: set[int] | None = None  # from when a node joins after a loss until a line: processes that had logged
        self.starts: dict[int, dict[str, int]] = {}  # by later process: sizes of files before its first operation
        self.changes: dict[int, set[str]] = {}  # and the names of those that it may have changed
        self.done: list[dict[str, Any]] = []

    def __call__(self, step: Step) -> Strike:
        node = step.rank
        if self.old is not None and step.process not in self.workers:
            broken = self._broken_in_start(step)
            if broken:
                return self._lose(step, broken)
        if step.name.startswith("steps-") and step.name.endswith(".jsonl"):
            return self._line(step) if step.call.startswith(("write", "pwrite")) else False
        if self.loss and self.loss[0] == "checkpoint" and node in self.there and self._cut_off(node):
            return self._lose(step)
        if self.join is not None and step.process in self.logged:
            return self._join(step)
        if self.late and self.loss is None and step.name.startswith("final") and step.process not in self.before_it:
            return self._join_late(step)
        self.others[node] = self.others.get(node, 0) + 1
        self.touched.setdefault(node, set()).add(step.name)
        return False

    def _line(self, step: Step) -> Strike:
        log = self.folder / step.name
        if log.exists() and log.stat().st_size and not log.read_bytes().endswith(b"\n"):
            return False  # in the middle of a line
        node, found = step.rank, lines(log)
        if node in self.ranks and self.others.get(node):
            self.write_them.add(node)
        digits = step.name.removeprefix("steps-").removesuffix(".jsonl")
        self.ranks[node] = int(digits) if digits.isdecimal() else 0
        reached = found[-1][0] + 1 if found and found[-1] else 0
        self.workers.add(step.process)
        if self.old is not None and step.process not in self.old:
            self.old = None
        if self.loss and self.loss[0] == "line" and reached >= self.loss[1]:
            writes = self.others.get(node, 0) > 0 and self._first(node, reached)
            if writes or reached >= self.loss[1] + LATER:
                return self._lose(step)
        if self.loss and self.loss[0] == "other":
            if self.waits == step.process:
                return self._lose(step)
            if self.waits is None and self._other(node, reached):
                self.waits = step.process
                return "later"
        if self.loss and self.loss[0] == "checkpoint":
            if node in self.there and self._cut_off(node):
                return self._lose(step)
            if self.others.get(node):
                self.worth[node] = self.others[node]
                self.harmless[node] = self.harmless.get(node, 0) + 1
            self.there[node] = self._files(node)
            self.at[node] = reached
        self.others[node] = 0
        if self.loss is None and self.join is not None and step.process not in self.before_it:
            if reached >= self.join and (not self.before_it or step.process in self.logged):
                return self._join(step)
            if self.before_it:
                self.logged.add(step.process)
        return False

    def _broken_in_start(self, step: Step) -> str:
        """What a worker that has logged nothing yet has done to a file that was there, in words; "" for nothing."""
        now = self._sizes()
        before = self.starts.setdefault(step.process, now)
        for name in sorted(self.changes.setdefault(step.process, set()) & before.keys()):
            if now.get(name, -1) < before[name]:
                how = "gone" if name not in now else "empty" if not now[name] else "cut short"
                return f"{name} was {how}"
        self.changes[step.process].add(step.name)
        return ""

    def _sizes(self) -> dict[str, int]:
        found = {}
        for path in self.folder.rglob("*"):
            name = str(path.relative_to(self.folder))
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and not name.startswith("steps-"):
                    found[name] = path.stat().st_size
        return found

    def _join(self, step: Step) -> Strike:
        if self.before_it:
            self.old = set(self.workers)
        self.join = None
        self._note("join", self.began, step)
        self.nodes.join()
        return "hold"

    def _join_late(self, step: Step) -> Strike:
        self.late = False
        attempts = [line[3] for each in logs(self.folder) for line in each if line]
        self.end = {"call": f"{step.call} {step.name}", "attempt": max(attempts, default=-1)}
        self.nodes.join()
        return "hold"

    def _first(self, node: int, step: int) -> bool:
        """Whether it is this node's turn to be lost: where all ranks write, which comes first is a matter of luck."""
        assert self.loss is not None
        return step >= self.loss[1] and (self.ranks[node] == 0 or step > self.loss[1])

    def _other(self, node: int, step: int) -> bool:
        """Whether this node is the one to be held: it writes no checkpoints, or is the second of two that do."""
        assert self.loss is not None
        return step >= self.loss[1] and (node not in self.write_them or (step > self.loss[1] and self.ranks[node] > 0))

    def _cut_off(self, node: int) -> bool:
        """Whether a node is to be lost before this operation, in the middle of a checkpoint."""
        assert self.loss is not None
        damaged, worth = self._damaged(node), self.worth.get(node, 0)
        if damaged:
            self.unsafe.add(node)
        if not self._first(node, self.at[node]):
            return False
        drawn = worth and min(2 + self.loss[2] % max(1, worth - 1), worth)
        safe = node not in self.unsafe and self.harmless.get(node, 0) >= ENOUGH
        return damaged or (safe and self.others.get(node, 0) + 1 == drawn)

    def _files(self, node: int) -> dict[str, tuple[int, int, int]]:
        """What is there of the files that a node wrote: by name its inode, size and time of change."""
        found = {}
        for name in self.touched.get(node, ()):
            path = self.folder / name
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                if path.is_file():
                    found[name] = status.st_ino, status.st_size, status.st_mtime_ns
        return found

    def _damaged(self, node: int) -> bool:
        """Whether a file that was there at the node's last line is gone, shorter, or changed in its place."""
        now = self._files(node)
        for name, (inode, size, changed) in self.there.get(node, {}).items():
            if name not in now:
                return True
            if now[name][0] == inode and (now[name][1] < size or (now[name][1] == size and now[name][2] != changed)):
                return True
        return False

    def _lose(self, step: Step, broken: str = "") -> Strike:
        self.loss, self.before_it, self.old = None, set(self.workers), None
        self._note("loss", step.rank, step, broken)
        self.nodes.lost(step.rank)
        return "rank"

    def _note(self, what: str, node: int, step: Step, broken: str = "") -> None:
        told = {
            "what": what,
            "node": node,
            "rank": self.ranks.get(step.rank, 0),
            "call": f"{step.call} {step.name}",
            "logs": logs(self.folder),
            "broken": broken,
        }
        self.done.append(told)


stood_still = 0  # jobs that did


def job(
    lives: Lives, x: torch.Tensor, y: torch.Tensor, epochs: int, batch: int, nodes: int, loss: list[Any], join: int,
    late: bool,
) -> dict[str, Any]:  # fmt: skip
    """One job: how it ended, what befell its nodes, their logs, and the final parameters.

    `nodes` begin; `loss` is empty, and `join` -1, where there is none. With `late`, one joins at the very end. The
    first job that stands still is tried once more: torch's agent forks while it has threads, and may leave a worker
    stuck.
    """
    global stood_still
    told = _job(lives, x, y, epochs, batch, nodes, loss, join, late)
    if told["ending"] == "stands still":
        stood_still += 1
        if stood_still == 1:
            return job(lives, x, y, epochs, batch, nodes, loss, join, late)
    return told


def _job(
    lives: Lives, x: torch.Tensor, y: torch.Tensor, epochs: int, batch: int, began: int, loss: list[Any], join: int,
    late: bool,
) -> dict[str, Any]:  # fmt: skip
    scratch, folder, arguments = prepared(x, y, {"epochs": epochs, "global-batch": batch})
    nodes = Nodes(scratch)
    nodes.expect(two=began == RANKS)
    nemesis = Nemesis(folder, nodes, began, loss or None, join if join >= 0 else None, late)
    store = dist.TCPStore(LOCAL, 0, is_master=True, wait_for_workers=False)  # where nodes meet; it outlives them all
    life = lives.run(
        agent, str(scratch), arguments, 1, RESTARTS, f"{LOCAL}:{store.port}", began, ranks=began + (join >= 0 or late),
        strangers=True, folder=folder, rooms=[scratch, SHARED_MEMORY], strike=nemesis,
        patience=HOPELESS_SECONDS if stood_still > 1 else PATIENCE_SECONDS,
        cpu_seconds=AGENTS_CPU_SECONDS,
    )  # fmt: skip
    ending = _ending(life, [told["node"] for told in nemesis.done if told["what"] == "loss"])
    own = own_errors(str(scratch))
    if ending == "failed" and not nemesis.done:
        raise Raised(own[0] if own else {"event": "raised", "text": "torchrun gave up on the job", "why": "ended"})
    told = {
        "ending": ending, "events": nemesis.done, "end": nemesis.end,
        "raised": first_raised(own),
        "logs": logs(folder), "final": final(folder / "final.pt"),
    }  # fmt: skip
    shutil.rmtree(scratch)
    return told


def _ending(life: Life, lost: list[int]) -> str:
    """Of the job, by what became of the agents that were not killed."""
    endings = set()
    for process in life.processes:
        if process.rank not in lost:
            event = process.event
            why = "stands still" if event.get("why") == "stuck" else "failed"
            endings.add(process.value if event.get("event") == "returned" else why)
    return next((ending for ending in ("stands still", "failed", "too late") if ending in endings), "finished")
