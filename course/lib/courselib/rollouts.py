"""Rollouts in virtual time: how long answers take, what a controller hands out, and what came of it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import torch
import torch.distributed as dist

from courselib.steps import Recorder
from courselib.timeline import Box

DONE, ASK, TRAINED = 0, 1, 2  # what a message to the controller says


def lengths(count: int, spread: float = 0.8, mean: float = 1.0, seed: int = 0) -> list[float]:
    """How long each answer takes: log-normal with this mean and this spread of the logarithm.

    Every seed draws one number from each of 16 equally likely stretches in a row, so that short runs are typical.
    """
    draw, normal = random.Random(seed), NormalDist()
    found: list[float] = []
    while len(found) < count:
        order = draw.sample(range(16), 16)
        found += [math.exp(spread * normal.inv_cdf((place + draw.uniform(0.05, 0.95)) / 16)) for place in order]
    return [mean * each / math.exp(spread**2 / 2) for each in found[:count]]


def control(steps: int, batch: int, ahead: int) -> list[int]:
    """Rank 0: hands out prompts, at most `ahead` batches before those that the next step takes; gives rank 1 a batch
    of answers whenever there is one. Returns the age of each sample that was trained on, in versions."""
    out, version, training = 0, 0, False
    ready: list[int] = []
    waiting: list[int] = []
    ages: list[int] = []
    while version < steps:
        told = torch.zeros(3)  # what happened, a prompt, and the version that answered it
        source = dist.recv(told)
        if told[0] == TRAINED:
            version, training = version + 1, False
        else:
            waiting.append(source)
            if told[0] == DONE:
                ready.append(int(told[2]))
        if len(ready) >= batch and not training and version < steps:
            ages += [version - answered_by for answered_by in ready[:batch]]
            ready, training = ready[batch:], True
            dist.send(torch.tensor([float(version)]), 1)
        while waiting and out < batch * (version + 1 + ahead):
            dist.send(torch.tensor([float(out), float(version)]), waiting.pop(0))
            out += 1
    stop([1, *waiting])
    return ages


def train(seconds: float) -> list[Box]:
    """The trainer's loop: a step for each message of the controller, until one says a version below 0."""
    seen, version = Recorder(), torch.zeros(1)
    while dist.recv(version, 0) == 0 and version >= 0:
        seen.work(seconds, str(int(version) + 1), "trains")
        dist.send(torch.tensor([float(TRAINED), 0.0, 0.0]), 0)
    return seen.boxes  # type: ignore[return-value]


def generate(durations: Sequence[float]) -> list[Box]:
    """A generator's loop: ask for a prompt and a version, answer, tell the controller, until told of prompt -1."""
    seen, order = Recorder(), torch.zeros(2)
    dist.send(torch.tensor([float(ASK), 0.0, 0.0]), 0)
    while dist.recv(order, 0) == 0 and order[0] >= 0:
        prompt, version = map(int, order)
        seen.work(durations[prompt], str(version), f"generates, {'odd' if version % 2 else 'even'} version")
        dist.send(torch.tensor([float(DONE), float(prompt), float(version)]), 0)
    return seen.boxes  # type: ignore[return-value]


def stop(waiting: Sequence[int]) -> None:
    """Rank 0 tells all others that the run is over, and takes the last answers of those that are not `waiting`."""
    ranks = range(1, dist.get_world_size())
    requests = [dist.isend(torch.full((1 if rank == 1 else 2,), -1.0), rank) for rank in ranks]
    requests += [dist.irecv(torch.zeros(3), rank) for rank in ranks if rank not in waiting]
    for request in requests:
        request.wait()


@dataclass(frozen=True)
class Fleet:
    """What a run of controller (rank 0), trainer (rank 1) and generators came to, from their boxes and ages.

    `boxes`: of each rank, (since, until, label, kind); `ages`: of each sample that was trained on, versions.
    """

    boxes: Sequence[Sequence[Box]]
    ages: Sequence[int]
    since: float = 0.0

    @property
    def end(self) -> float:
        """When the trainer was done with its last step."""
        return max(until for _, until, *_ in self.boxes[1])

    def idle(self, rank: int) -> float:
        """The share of the time, up to `end`, in which a rank does not work."""
        busy = sum(min(until, self.end) - since for since, until, *_ in self.boxes[rank] if since < self.end)
        return 1 - busy / self.end

    @property
    def generators_idle(self) -> float:
        return sum(self.idle(rank) for rank in range(2, len(self.boxes))) / (len(self.boxes) - 2)

    @property
    def rows(self) -> dict[str, Sequence[Box]]:
        """For `timeline`."""
        names = ["trainer", *(f"generator {number}" for number in range(1, len(self.boxes) - 1))]
        return dict(zip(names, self.boxes[1:], strict=True))


def fleet(run: Any) -> Fleet:
    """From what the ranks returned: the controller the ages, the others their boxes."""
    return Fleet([[], *run.returned[1:]], run.returned[0])
