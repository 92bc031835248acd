import contextlib
import re
from collections.abc import Callable

import torch
import torch.distributed as dist

SERVER = 0


def serve(parameters: torch.Tensor, workers: list[int], steps: int, lr: float, max_staleness: int) -> None:
    left = dict.fromkeys(workers, steps)  # live worker -> gradients that it still owes
    version = 0  # updates applied so far
    waiting: dict[int, torch.Tensor] = {}  # gradients of the round that is not complete, by worker

    def answer(worker: int, accepted: bool) -> None:
        """Tell a worker what became of its gradient, and send it the parameters as they are now."""
        told = torch.tensor([version, accepted], dtype=parameters.dtype)
        with contextlib.suppress(RuntimeError):  # it died: the next receive from any source says so
            dist.send(torch.cat([parameters, told]), worker)

    def apply(gradients: dict[int, torch.Tensor]) -> None:
        """One update with the mean of these workers' gradients, and an answer to each."""
        nonlocal version
        parameters.sub_(torch.stack(list(gradients.values())).mean(0), alpha=lr)
        version += 1
        for worker in gradients:
            if worker in left:
                left[worker] -= 1
                answer(worker, accepted=True)
                if not left[worker]:
                    del left[worker]

    for worker in workers:
        dist.send(torch.tensor([parameters.numel()]), worker)
        answer(worker, accepted=False)
    message = parameters.new_empty(parameters.numel() + 1)  # a gradient, and the version that it is of
    while left:
        try:
            worker = dist.recv(message)  # from whoever comes first
        except RuntimeError as error:
            dead = re.search(r"rank (\d+)", str(error))
            if dead is None:
                raise
            left.pop(int(dead[1]), None)
        else:
            age = version - int(message[-1])
            if max_staleness == 0:
                waiting[worker] = message[:-1].clone()
            elif age <= max_staleness:
                apply({worker: message[:-1]})
            else:
                answer(worker, accepted=False)
        if waiting and waiting.keys() >= left.keys():  # a death may complete a round, too
            complete, waiting = waiting, {}
            apply(complete)


def work(rank: int, gradient_fn: Callable[[torch.Tensor], torch.Tensor], steps: int) -> None:
    size = torch.empty(1, dtype=torch.int64)
    dist.recv(size, SERVER)
    answer = torch.empty(int(size) + 2)  # parameters, their version, and whether the last gradient was accepted
    dist.recv(answer, SERVER)
    while steps > 0:
        gradient = gradient_fn(answer[:-2])
        dist.send(torch.cat([gradient, answer[-2:-1]]), SERVER)
        dist.recv(answer, SERVER)
        steps -= int(answer[-1])
