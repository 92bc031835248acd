"""One call of a learner's train: which worker takes which rows, who is held up, who is killed, and what came of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from grader.jobs.rays.bench import RayBench
from grader.jobs.rays.lease import Said
from grader.lost import Lost
from grader.trace.gantt import Bar, Became, Chart
from grader.verdict import Diagnosis, Kind

WORKERS, SCALE = 2, 4.0
EPOCHS, BATCH_SIZE, LR = 24, 32, 0.02
MOST_PROCESSES = 9  # that get config where nobody is killed: of four starts of the workers, and Ray's own
MOST_RANKS, MOST_EPOCHS = 64, 10 * EPOCHS  # what is heard of at all
FIT_SECONDS = 120.0
APART = 16.0  # what the y of two processes differ by at least, where each has its own
HELD_SECONDS, LONGEST_SECONDS = 0.75, 5.0  # that a worker is held without news, and at the longest


@dataclass(frozen=True)
class Batch:
    pid: int
    role: str
    rank: int
    epoch: int
    rows: tuple[int, ...]
    saved: bool = True  # whether its worker had reported a checkpoint before


@dataclass
class Training:
    """One call of train(): which worker took which rows, and what it returned."""

    bench: RayBench
    label: str
    hot: list[int]
    y: list[float]
    kill: tuple[int, int] | None = None  # in which epoch, which rank, before its first batch
    batches: list[Batch] = field(default_factory=list)
    killed: Batch | None = None
    registered: bool = False  # whether there was a checkpoint of the epoch before
    told: dict[str, Any] = field(default_factory=dict)
    hold: dict[int, int] = field(default_factory=dict)  # in which epochs, which rank, before its first batch
    alone: Batch | None = None  # what another took meanwhile though it had taken one
    own: bool = False  # whether each process has a y of its own
    epochs: int = EPOCHS
    observed: bool = True  # whether config has an observe; without one, y tells which processes there are
    shifts: dict[int, float] = field(default_factory=dict)  # by how much a process's y is shifted then
    _held: tuple[Said, Batch] | None = None
    _news: float = 0.0

    def run(self) -> Training:
        """Raises Lost."""
        given = (self.hot, SCALE, self.y, LR, self.epochs, BATCH_SIZE, self.own, self.observed)
        try:
            self.told = self.bench.call("train", "fit", *given, seconds=FIT_SECONDS, said=self._said, idle=self._idle)
        except Lost as trouble:
            trouble.picture = self.chart()
            raise
        return self

    def _said(self, said: Said) -> None:
        driver = self.bench.driver
        if said.what["what"] == "waited":
            self.registered = said.what["registered"] is True
            driver.kill(said.pid)
            return
        if said.what["what"] == "apart":
            known = len(self.shifts)
            shift = APART * (known // 2 + 1) * (-1 if known % 2 else 1)  # no two processes' are the same
            driver.answer(said, self.shifts.setdefault(said.pid, shift if self.own else 0.0))
            if known >= MOST_PROCESSES and not self.own:
                text = "Nobody killed a worker, but the workers were started again and again, without an end."
                raise self.lost("crash", text, "the workers start once", f"{known + 1} processes got config")
            return
        rank, epoch, rows = int(said.what["rank"]), int(said.what["epoch"]), tuple(map(int, said.what["rows"]))
        if not (0 <= rank < MOST_RANKS and 0 <= epoch <= MOST_EPOCHS):
            raise ValueError("no rank or no epoch")
        batch = Batch(said.pid, said.role, rank, epoch, rows, said.what.get("saved") is not False)
        self.batches.append(batch)
        if self.kill == (epoch, rank) and self.killed is None:
            if said.role != "worker":
                self.by_two()
            self.killed = batch
            driver.answer(said, epoch - 1)  # which checkpoint is to be registered first
            return
        self._let(said, batch)

    def _let(self, said: Said, batch: Batch) -> None:
        """Let a worker take its batch, unless it is to be held; then it is, until the other one is stuck or is not."""
        self._news = time.monotonic()
        before = [each for each in self.batches[:-1] if (each.rank, each.epoch) == (batch.rank, batch.epoch)]
        if self.hold.get(batch.epoch) == batch.rank and not before and self._held is None:
            self._held = said, batch
            return
        self.bench.driver.answer(said)
        if self._held is not None and before and batch.epoch == self._held[1].epoch:
            self.alone = self.alone or batch
            self._go_on()

    def _idle(self) -> None:
        now = time.monotonic()
        if self._held is not None:
            came = any(each.epoch == self._held[1].epoch and each.rank != self._held[1].rank for each in self.batches)
            if now - self._news > (HELD_SECONDS if came else LONGEST_SECONDS):
                self._go_on()

    def _go_on(self) -> None:
        assert self._held is not None
        held, self._held = self._held[0], None
        self.bench.driver.answer(held)

    @property
    def gap(self) -> float:
        """How far apart the y were that the two workers trained with; 0 if they were not theirs to choose."""
        found = {self.shifts.get(batch.pid) for batch in self.batches}
        known = [shift for shift in found if shift is not None]
        return abs(known[0] - known[1]) if len(known) == len(found) == WORKERS else 0.0

    @property
    def missed(self) -> float:
        """The mean squared error by which a model of both workers misses its targets, because their y are apart.

        Only x that both took a row of count: what one of them alone has seen it can meet.
        """
        seen: dict[int, set[int]] = {}
        for batch in self.batches:
            for row in batch.rows:
                seen.setdefault(self.hot[row], set()).add(batch.rank)
        return (self.gap / 2) ** 2 * sum(len(ranks) > 1 for ranks in seen.values()) / max(len(seen), 1)

    @property
    def after(self) -> list[Batch]:
        """The batches of processes that began after the kill."""
        if self.killed is None:
            return []
        before = {batch.pid for batch in self.batches[: self.batches.index(self.killed) + 1]}
        return [batch for batch in self.batches if batch.pid not in before]

    def chart(self) -> Chart:
        """A lane for each process, epochs from left to right."""
        ranks = {batch.pid: batch.rank for batch in reversed(self.batches)}  # of a process, the first that it told
        lives: dict[int, tuple[int, int]] = {}
        for pid in dict.fromkeys(batch.pid for batch in self.batches):
            lives[pid] = (1 + sum(ranks[other] == ranks[pid] for other in lives), ranks[pid])
        order = sorted(lives, key=lambda pid: lives[pid])
        lanes = {pid: f"rank {lives[pid][1]}" + (f", life {lives[pid][0]}" * (lives[pid][0] > 1)) for pid in order}
        chart = Chart(
            tuple(lanes.values()) or ("no worker",), subtitle=f"{self.label}; epochs from left to right", unit=""
        )
        for pid, epoch in dict.fromkeys((batch.pid, batch.epoch) for batch in self.batches):
            cut = self.killed is not None and epoch == self.killed.epoch and lives[pid][0] == 1
            became: Became = "died" if cut and self.killed and self.killed.pid == pid else "still" if cut else "done"
            chart.bars.append(Bar(lanes[pid], epoch, epoch + 1.0, str(epoch), became))
            chart.end = max(chart.end, epoch + 1.0)
        if self.killed is not None:
            chart.gone[lanes[self.killed.pid]] = self.killed.epoch + 1.0
        return chart

    # ---- what must hold

    def lost(self, kind: Kind, text: str, expected: str = "", got: str = "", line: int | None = None) -> Lost:
        found: Diagnosis = self.bench.found(kind, f"{self.label}. {text}", expected, got, line)
        return Lost(found, self.chart())

    def result(self) -> dict[str, Any]:
        """What is told of what train returned. Raises Lost where it is no Result, or one with an error."""
        told = self.told
        if told["type"] != "Result":
            text = f"train returned a {told['type']}. Return what TorchTrainer.fit() returns."
            raise self.lost("wrong_result", text, "a Result", str(told["type"]))
        if told["error"]:
            raise self.lost("crash", f"The training ended with an error: {told['error']}", "no error", "an error")
        return told

    def returned(self) -> float:
        """The loss of the last epoch. Raises Lost where there is none."""
        told = self.result()
        loss, epoch = told["loss"], told["epoch"]
        if loss is None or epoch is None:
            text = "The result's metrics lack a finite loss or an epoch. Give both to ray.train.report in each epoch."
            text += "" if told["checkpoint"] else " A report without a checkpoint is not kept."
            raise self.lost("wrong_result", text, "loss and epoch", f"loss {loss}, epoch {epoch}")
        last = self.epochs - 1
        if epoch not in (last, last + 1):
            text = f"The last report is of epoch {epoch:g} instead of {last}. Train for config's {self.epochs} epochs."
            raise self.lost("wrong_result", text, f"epoch {last}", f"epoch {epoch:g}")
        return float(loss)

    def shared(self) -> Training:
        """Raises Lost where not two of Ray's workers shared all rows in every epoch."""
        self.by_two()
        for epoch in range(EPOCHS):
            self._shared(epoch)
        return self

    def saved(self) -> Training:
        """Raises Lost where a worker came to its last epoch without having reported a checkpoint."""
        for batch in self.batches:
            if batch.epoch == self.epochs - 1 and not batch.saved:
                text = (
                    f"When rank {batch.rank} began epoch {batch.epoch}, it had not reported a checkpoint in any epoch "
                    "before. Every worker must give ray.train.report a checkpoint in every epoch. If a worker writes no "
                    "files, give it the checkpoint of an empty folder."
                )
                raise self.lost("wrong_result", text, f"checkpoints of rank {batch.rank}", "none")
        return self

    def by_two(self) -> Training:
        """Raises Lost where batches were not taken by two of Ray's workers."""
        outside = [batch for batch in self.batches if batch.role != "worker"]
        if outside:
            text = f"A batch was taken in the {outside[0].role}'s own process. Train in the workers of a TorchTrainer."
            raise self.lost("wrong_result", text, "batches in Ray's workers", f"in the {outside[0].role}")
        ranks = sorted({batch.rank for batch in self.batches})
        if ranks != list(range(WORKERS)):
            text = (
                f"Ranks {ranks} called observe. Train on {WORKERS} workers, and call observe before each batch of each."
            )
            raise self.lost("wrong_result", text, f"ranks {list(range(WORKERS))}", str(ranks))
        return self

    def _shared(self, epoch: int) -> None:
        rows = {
            rank: [row for batch in self.batches if (batch.rank, batch.epoch) == (rank, epoch) for row in batch.rows]
            for rank in range(WORKERS)
        }
        both = {*rows[0]} & {*rows[1]}
        if both:
            text = (
                f"In epoch {epoch} both workers took {len(both)} of {len(self.y)} rows, for example row {min(both)}. Give "
                "each worker its own part (a DistributedSampler, or rows[rank::size])."
            )
            raise self.lost("wrong_result", text, "no row twice", f"{len(both)} rows twice")
        missing = {*range(len(self.y))} - {*rows[0], *rows[1]}
        if missing:
            text = (
                f"In epoch {epoch} no worker took {len(missing)} of {len(self.y)} rows, for example row {min(missing)}."
            )
            text += " Take every row once in each epoch."
            raise self.lost("lost_or_duplicated", text, f"{len(self.y)} rows", f"{len(self.y) - len(missing)}")
        largest = max(len(batch.rows) for batch in self.batches)
        if largest > BATCH_SIZE:
            text = f"A batch has {largest} rows. A worker may take at most batch_size = {BATCH_SIZE} rows at a time."
            raise self.lost("wrong_result", text, f"<= {BATCH_SIZE} rows", str(largest))
