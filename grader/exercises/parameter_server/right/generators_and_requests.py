"""Right: a coroutine for each worker on the server; requests from any source are posted ahead; answers go by isend."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def serve(parameters: Tensor, workers: list[int], steps: int, lr: float, max_staleness: int) -> None:
    state = {"version": 0}
    outbox: dict[int, tuple[dist.Work, Tensor]] = {}
    barrier: dict[int, Tensor] = {}

    def post(worker: int, *parts: Tensor) -> None:
        if worker in outbox:
            outbox.pop(worker)[0].wait()
        packed = torch.cat([part.double().reshape(-1) for part in parts])
        outbox[worker] = (dist.isend(packed, worker), packed)

    def attend(worker: int):
        """Talks to one worker: is sent its gradients, or None when its round was applied."""
        post(worker, torch.tensor([len(parameters)]))
        accepted = 0
        while True:
            seen = state["version"]
            post(worker, torch.tensor([accepted]), parameters)
            if accepted == steps:
                return
            gradient = yield
            if max_staleness == 0:
                barrier[worker] = gradient
                yield
                accepted += 1
            elif state["version"] - seen <= max_staleness:
                parameters.add_(gradient, alpha=-lr)
                state["version"] += 1
                accepted += 1

    talks = {}
    for worker in workers:
        talk = attend(worker)
        next(talk)
        talks[worker] = talk

    def resume(worker: int, value: Tensor | None) -> None:
        try:
            talks[worker].send(value)
        except StopIteration:
            talks.pop(worker)

    def end_of_round() -> None:
        if barrier and set(talks) <= set(barrier):
            mean = torch.stack([barrier[worker] for worker in sorted(barrier)]).mean(dim=0)
            parameters.add_(mean, alpha=-lr)
            state["version"] += 1
            everyone = [worker for worker in barrier if worker in talks]
            barrier.clear()
            for worker in everyone:
                resume(worker, None)

    while talks:
        inbox = torch.empty(len(parameters))
        request = dist.irecv(inbox)
        try:
            request.wait()
        except RuntimeError as error:
            words = str(error).replace(":", " ").split()
            dead = int(words[words.index("rank") + 1])
            talks.pop(dead, None)
            outbox.pop(dead, None)
        else:
            resume(request._source_rank(), inbox)
        end_of_round()
    for request, _ in outbox.values():
        request.wait()


def work(rank: int, gradient_fn, steps: int) -> None:
    first = torch.empty(1, dtype=torch.float64)
    dist.irecv(first, 0).wait()
    packed = torch.empty(1 + int(first), dtype=torch.float64)
    while True:
        dist.irecv(packed, 0).wait()
        if int(packed[0]) == steps:
            return
        dist.isend(gradient_fn(packed[1:].float()), 0).wait()
