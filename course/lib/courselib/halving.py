"""A search that stops early: learning curves of a real small model, successive halving, and ASHA, on them.

Jamieson and Talwalkar 2016 (*Non-stochastic best arm identification and hyperparameter optimization*); Li et al. 2020
(*A system for massively parallel hyperparameter tuning*, algorithm 2). All configurations are trained for real, once;
what a search would have stopped is then not looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from courselib.plot import plot
from courselib.svg import Drawn, Plot
from courselib.timeline import Box, timeline


@dataclass(frozen=True)
class Config:
    """Hyperparameters of the model: its learning rate, momentum, and hidden units."""

    lr: float
    momentum: float
    width: int


def draw(count: int, seed: int = 0) -> list[Config]:
    """So many configurations by chance: the learning rate is uniform in its logarithm."""
    rng = np.random.default_rng(seed)
    return [
        Config(float(10 ** rng.uniform(-3.5, 0.7)), float(rng.uniform(0, 0.95)), int(2 ** rng.integers(1, 6)))
        for _ in range(count)
    ]


def curves(configs: Sequence[Config], epochs: int, seed: int = 1) -> list[list[float]]:
    """Each configuration's validation loss after each epoch: a network of one hidden layer learns a wave, in numpy."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, (256, 1))
    y = np.sin(2 * x) + 0.1 * rng.standard_normal(x.shape)
    return [_train(config, x[:192], y[:192], x[192:], y[192:], epochs) for config in configs]


def _train(
    config: Config, x: np.ndarray, y: np.ndarray, x_val: np.ndarray, y_val: np.ndarray, epochs: int
) -> list[float]:
    rng = np.random.default_rng(7)
    weights = [rng.standard_normal((1, config.width)), rng.standard_normal((1, config.width)),
               rng.standard_normal((config.width, 1)) / np.sqrt(config.width)]  # fmt: skip
    speeds = [np.zeros_like(weight) for weight in weights]
    losses = []
    with np.errstate(all="ignore"):
        for _ in range(epochs):
            for start in range(0, len(x), 16):
                rows, right = x[start : start + 16], y[start : start + 16]
                hidden = np.tanh(rows @ weights[0] + weights[1])
                error = 2 * (hidden @ weights[2] - right) / len(rows)
                back = (error @ weights[2].T) * (1 - hidden**2)
                gradients = [rows.T @ back, back.sum(0, keepdims=True), hidden.T @ error]
                for weight, speed, gradient in zip(weights, speeds, gradients, strict=True):
                    speed *= config.momentum
                    speed += gradient
                    weight -= config.lr * speed
            loss = float(np.mean((np.tanh(x_val @ weights[0] + weights[1]) @ weights[2] - y_val) ** 2))
            losses.append(min(loss, 1e6) if np.isfinite(loss) else 1e6)
    return losses


# ---- successive halving, by rungs


def rungs(least: int, most: int, eta: int) -> list[int]:
    """The epochs at which a search decides: least, least x eta, ... up to most."""
    found = [least]
    while found[-1] * eta <= most:
        found.append(found[-1] * eta)
    return found


@dataclass
class Halving(Drawn):
    """What a search did. `at` holds for each rung who came to it, with their losses there; shown, it is the curves,
    each as far as it was trained."""

    levels: list[int]
    at: list[dict[int, float]]
    curves: Sequence[Sequence[float]] = field(repr=False)

    @property
    def epochs(self) -> int:
        """Trained in all; who is promoted goes on from where it was."""
        steps = [level - before for before, level in zip([0, *self.levels], self.levels, strict=False)]
        return sum(step * len(there) for step, there in zip(steps, self.at, strict=True))

    @property
    def best(self) -> int:
        """The configuration with the least loss on the highest rung."""
        top = next(there for there in reversed(self.at) if there)
        return min(top, key=lambda number: top[number])

    def picture(self, title: str = "", most_loss: float = 1.2) -> Plot:
        last = {number: level for level, there in zip(self.levels, self.at, strict=True) for number in there}
        lines = {}
        for level in self.levels:
            ended = [number for number, at in last.items() if at == level]
            lines[f"{len(ended)} stopped at {level}" if level < self.levels[-1] else f"{len(ended)} to the end"] = [
                (float(epoch + 1), min(self.curves[number][epoch], most_loss))
                for number in ended
                for epoch in range(level)
            ]
        points = {name: dots for name, dots in lines.items() if dots}
        best = [(float(at + 1), min(loss, most_loss)) for at, loss in enumerate(self.curves[self.best])]
        return plot(title or "Loss of each configuration", {"the one that won": best}, points, x="epochs", y="loss",
                    log="x")  # fmt: skip


def successive_halving(losses: Sequence[Sequence[float]], least: int, eta: int) -> Halving:
    """All train to the first rung, the best 1/eta of them to the next, and so on: with a barrier at each rung."""
    levels = rungs(least, len(losses[0]), eta)
    alive, at = list(range(len(losses))), []
    for level in levels:
        here = {number: losses[number][level - 1] for number in alive}
        at.append(here)
        alive = sorted(alive, key=lambda number: here[number])[: max(1, len(alive) // eta)]
    return Halving(levels, at, losses)


# ---- with several workers


@dataclass
class Schedule:
    """A search on several workers, in virtual seconds: an epoch of a configuration takes what `pace` says."""

    boxes: list[tuple[int, float, float, int, int]]  # worker, since, until, configuration, rung
    workers: int
    halving: Halving

    @property
    def seconds(self) -> float:
        return max(until for _, _, until, _, _ in self.boxes)

    @property
    def busy(self) -> float:
        """The share of the workers' time in which they train."""
        return sum(until - since for _, since, until, _, _ in self.boxes) / (self.workers * self.seconds)

    def picture(self, title: str, until: float | None = None) -> Plot:
        rows: dict[str, list[Box]] = {f"worker {worker}": [] for worker in range(self.workers)}
        for worker, since, end, number, rung in self.boxes:
            rows[f"worker {worker}"].append((since, end, str(number), f"to epoch {self.halving.levels[rung]}"))
        return timeline(title, rows, until=until, kinds=[f"to epoch {level}" for level in self.halving.levels])


def _seconds(levels: Sequence[int], pace: Sequence[float], number: int, rung: int) -> float:
    return (levels[rung] - (levels[rung - 1] if rung else 0)) * pace[number]


def in_step(losses: Sequence[Sequence[float]], least: int, eta: int, workers: int, pace: Sequence[float]) -> Schedule:
    """Successive halving: nobody goes on to a rung before the last one has come to the rung below."""
    halving = successive_halving(losses, least, eta)
    boxes, now = [], 0.0
    for rung, there in enumerate(halving.at):
        free = [(now, worker) for worker in range(workers)]
        for number in there:
            since, worker = heapq.heappop(free)
            until = since + _seconds(halving.levels, pace, number, rung)
            boxes.append((worker, since, until, number, rung))
            heapq.heappush(free, (until, worker))
        now = max(until for _, _, until, _, _ in boxes)
    return Schedule(boxes, workers, halving)


def asha(losses: Sequence[Sequence[float]], least: int, eta: int, workers: int, pace: Sequence[float]) -> Schedule:
    """ASHA: a worker that is free promotes whoever is among the best 1/eta of its rung *so far*, the highest rung
    first; where nobody is, it begins a new configuration."""
    levels = rungs(least, len(losses[0]), eta)
    at: list[dict[int, float]] = [{} for _ in levels]
    promoted: list[set[int]] = [set() for _ in levels]
    new = iter(range(len(losses)))
    boxes: list[tuple[int, float, float, int, int]] = []
    events: list[tuple[float, int, int, int]] = [(0.0, worker, -1, -1) for worker in range(workers)]
    idle: list[int] = []
    while events:
        now, worker, number, rung = heapq.heappop(events)
        if number >= 0:
            at[rung][number] = losses[number][levels[rung] - 1]
        for free in sorted([*idle, worker]):
            job = _job(at, promoted, eta, new)
            if job is None:
                idle = sorted({*idle, free})
                continue
            idle = [other for other in idle if other != free]
            until = now + _seconds(levels, pace, *job)
            boxes.append((free, now, until, *job))
            heapq.heappush(events, (until, free, *job))
    return Schedule(boxes, workers, Halving(levels, at, losses))


def _job(at: list[dict[int, float]], promoted: list[set[int]], eta: int, new: object) -> tuple[int, int] | None:
    for rung in range(len(at) - 2, -1, -1):
        here = at[rung]
        for number in sorted(here, key=lambda number: here[number])[: len(here) // eta]:
            if number not in promoted[rung]:
                promoted[rung].add(number)
                return number, rung + 1
    number = next(new, None)  # type: ignore[call-overload]
    return None if number is None else (number, 0)
