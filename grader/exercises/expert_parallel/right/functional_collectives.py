"""Functional collectives, which have gradients; pairs are Python objects in lists."""

from dataclasses import dataclass
from operator import attrgetter

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn


@dataclass
class Pair:
    expert: int
    choice: int
    rank: int
    position: int


class ExpertParallel(nn.Module):
    def __init__(self, router: nn.Linear, experts: list[nn.Module], k: int, capacity: int | None) -> None:
        super().__init__()
        self.router = router
        self.experts = nn.ModuleList(experts)
        self.k, self.capacity = k, capacity

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, me, each = dist.get_world_size(), dist.get_rank(), len(self.experts)
        logits = self.router(x)
        chosen = logits.argsort(dim=1, descending=True)[:, : self.k]
        weights = torch.softmax(logits.gather(1, chosen), dim=1)

        counts = torch.nn.functional.one_hot(chosen, n * each).sum(0).contiguous()
        heard = [torch.zeros_like(counts) for _ in range(n)]
        dist.all_gather(heard, counts)

        # Positions are not needed of the others: only how many pairs there are.
        pairs = [
            Pair(expert, choice, rank, -1)
            for rank in range(n) if rank != me
            for choice in range(self.k)
            for expert, count in enumerate(heard[rank][choice].tolist())
            for _ in range(count)
        ]  # fmt: skip
        for position, row in enumerate(chosen.tolist()):
            pairs += [Pair(expert, choice, me, position) for choice, expert in enumerate(row)]
        pairs.sort(key=attrgetter("expert", "choice", "rank", "position"))
        taken = [[pair for pair in pairs if pair.expert == expert][: self.capacity] for expert in range(n * each)]

        mine = [pair for found in taken for pair in found if pair.rank == me]
        out = [sum(pair.expert // each == rank for pair in mine) for rank in range(n)]
        coming = [
            (rank, expert)
            for rank in range(n)
            for expert in range(me * each, (me + 1) * each)
            for pair in taken[expert]
            if pair.rank == rank
        ]
        into = [sum(rank == sender for sender, _ in coming) for rank in range(n)]

        places = torch.tensor([pair.position for pair in mine], dtype=torch.long)
        choices = torch.tensor([pair.choice for pair in mine], dtype=torch.long)
        rows = funcol.all_to_all_single_autograd(x[places], into, out, dist.group.WORLD)
        answers = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts, start=me * each):
            at = torch.tensor([i for i, (_, target) in enumerate(coming) if target == number], dtype=torch.long)
            answers = answers.index_add(0, at, expert(rows[at]))
        home = funcol.all_to_all_single_autograd(answers, out, into, dist.group.WORLD)
        return torch.zeros_like(x).index_add(0, places, home * weights[places, choices].unsqueeze(-1))

    def finish_gradient_sync(self) -> None:
        for parameter in (self.router.weight, self.router.bias):
            gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
            parameter.grad = funcol.all_reduce(gradient, "sum", dist.group.WORLD) + 0
