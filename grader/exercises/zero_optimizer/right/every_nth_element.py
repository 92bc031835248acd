"""Cyclic shards: rank i % N steps element i of a group. Each group has its optimizer; options are copied before each step."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist


class ShardedGroup:
    def __init__(self, group: dict[str, Any], optimizer_class: type, kwargs: dict[str, Any]) -> None:
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        params = group["params"]
        self.params = [params] if isinstance(params, torch.Tensor) else list(params)
        self.total = sum(p.numel() for p in self.params)
        self.rounds = -(-self.total // self.world)
        self.pieces: list[torch.nn.Parameter | None] = []
        self.inside: list[tuple[int, int]] = []  # of each parameter, where its elements lie in the shard
        start = 0
        for p in self.params:
            low = self.turn(start)
            start += p.numel()
            high = self.turn(start)
            self.inside.append((low, high))
            self.pieces.append(torch.nn.Parameter(p.detach().new_zeros(high - low)) if high > low else None)
        options = {key: value for key, value in group.items() if key != "params"}
        mine = [piece for piece in self.pieces if piece is not None]
        self.optimizer = optimizer_class([{**options, "params": mine}], **kwargs)
        filled = {key: value for key, value in self.optimizer.param_groups[0].items() if key != "params"}
        self.options = {"params": self.params, **filled}

    def turn(self, index: int) -> int:
        """How many of the first `index` elements of the group are this rank's."""
        return max(0, -(-(index - self.rank) // self.world))

    def deal(self, values: list[torch.Tensor | None]) -> torch.Tensor:
        """[N, rounds]: row r holds what is rank r's; None counts as zeros."""
        flat = self.params[0].detach().new_zeros(self.rounds * self.world)
        start = 0
        for p, value in zip(self.params, values):
            if value is not None:
                flat[start : start + p.numel()] = value.detach().reshape(-1)
            start += p.numel()
        return flat.view(self.rounds, self.world).t().contiguous()

    def step(self, stage: int) -> None:
        here = [p.grad is not None for p in self.params]
        dealt = self.deal([p.grad for p in self.params])
        if stage == 2:
            for p in self.params:
                p.grad = None
            grads = dealt.new_empty(self.rounds)
            dist.reduce_scatter_tensor(grads, dealt.view(-1))
            grads /= self.world
        else:
            grads = dealt[self.rank].clone()
        del dealt
        values = self.deal(list(self.params))[self.rank]
        for piece, (low, high), present in zip(self.pieces, self.inside, here):
            if piece is not None:
                piece.copy_(values[low:high])
                piece.grad = grads[low:high] if present else None
        self.optimizer.param_groups[0].update({key: v for key, v in self.options.items() if key != "params"})
        self.optimizer.step()
        shard = values.new_zeros(self.rounds)
        for piece, (low, high) in zip(self.pieces, self.inside):
            if piece is not None:
                shard[low:high] = piece
                piece.grad = None
        whole = shard.new_empty(self.world * self.rounds)
        dist.all_gather_into_tensor(whole, shard)
        flat = whole.view(self.world, self.rounds).t().reshape(-1)
        for p, value in zip(self.params, flat[: self.total].split([p.numel() for p in self.params])):
            p.copy_(value.view(p.shape))


class ZeroOptimizer:
    def __init__(self, params: Iterable[Any], optimizer_class: type, stage: int = 1, **kwargs: Any) -> None:
        self.optimizer_class, self.stage, self.kwargs = optimizer_class, stage, kwargs
        self.groups: list[ShardedGroup] = []
        given = list(params)
        if not given or not isinstance(given[0], dict):
            given = [{"params": given}]
        for group in given:
            self.add_param_group(group)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group.options for group in self.groups]

    @torch.no_grad()
    def step(self) -> None:
        for group in self.groups:
            group.step(self.stage)

    def zero_grad(self) -> None:
        for group in self.groups:
            for p in group.params:
                p.grad = None

    def add_param_group(self, group: dict[str, Any]) -> None:
        self.groups.append(ShardedGroup(group, self.optimizer_class, self.kwargs))
