from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist


class ZeroOptimizer:
    """`optimizer_class` with its state sharded over the ranks, and in stage 2 the gradients too."""

    def __init__(self, params: Iterable[Any], optimizer_class: type, stage: int = 1, **kwargs: Any) -> None:
        params = list(params)
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        self.n, self.rank, self.stage = dist.get_world_size(), dist.get_rank(), stage
        self.parameters = []  # of each group: the parameters, whole
        self.shards = []  # of each group: this rank's share of them, one flat tensor
        self.pieces = []  # of each group, for each parameter: the part of it in the shard, and where it is there
        self.inner = optimizer_class([self._cut(group) for group in groups], **kwargs)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.inner.param_groups

    def _row(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """All tensors in one flat row, padded so that it can be cut into N shards of equal length."""
        row = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        return torch.nn.functional.pad(row, (0, -row.numel() % self.n))

    def _cut(self, group: dict[str, Any]) -> dict[str, Any]:
        """The group for the inner optimizer: in place of each parameter the piece of it that this rank owns."""
        params = list(group["params"])
        shard = self._row(params).view(self.n, -1)[self.rank].clone()
        size, pieces = shard.numel(), []
        start = -self.rank * size  # of a parameter, seen from the shard
        for p in params:
            where = slice(min(max(start, 0), size), min(max(start + p.numel(), 0), size))
            pieces.append((torch.nn.Parameter(shard[where]), where))  # shares the shard's memory
            start += p.numel()
        self.parameters.append(params)
        self.shards.append(shard)
        self.pieces.append(pieces)
        return {**group, "params": [piece for piece, _ in pieces]}

    @torch.no_grad()
    def step(self) -> None:
        for params, shard, pieces in zip(self.parameters, self.shards, self.pieces):
            skipped = [p.grad is None for p in params]
            row = self._row([torch.zeros_like(p) if p.grad is None else p.grad for p in params])
            own = row.view(self.n, -1)[self.rank]
            if self.stage == 2:
                for p in params:
                    p.grad = None
                own = torch.empty_like(shard)
                dist.reduce_scatter_tensor(own, row)
                own /= self.n
            for (piece, where), none in zip(pieces, skipped):
                piece.grad = None if none else own[where]
        self.inner.step()
        self.inner.zero_grad()
        for params, shard in zip(self.parameters, self.shards):
            row = shard.new_empty(self.n * shard.numel())
            dist.all_gather_into_tensor(row, shard)
            start = 0
            for p in params:
                p.copy_(row[start : start + p.numel()].view_as(p))
                start += p.numel()

    def zero_grad(self) -> None:
        for params in self.parameters:
            for p in params:
                p.grad = None

    def add_param_group(self, group: dict[str, Any]) -> None:
        self.inner.add_param_group(self._cut(group))
