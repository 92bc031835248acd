"""One row for each group, cut into N shards. One inner optimizer steps small slices of this rank's shard."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist


class Row:
    """A parameter group laid out in a row, and the pieces of parameters that lie in this rank's shard."""

    def __init__(self, params: list[torch.Tensor]) -> None:
        self.world = dist.get_world_size()
        self.params = params
        total = sum(p.numel() for p in params)
        self.part = -(-total // self.world)
        low = dist.get_rank() * self.part
        with torch.no_grad():
            self.shard = params[0].detach().new_zeros(self.part)
            self.pieces = []  # parameter, begin and end in it, where it begins in the shard, the slice of the shard
            start = 0
            for p in params:
                begin, end = max(start, low), min(start + p.numel(), low + self.part)
                if begin < end:
                    piece = torch.nn.Parameter(self.shard[begin - low : end - low])
                    self.pieces.append((p, begin - start, end - start, begin - low, piece))
                start += p.numel()

    def views(self, row: torch.Tensor):
        start = 0
        for p in self.params:
            yield p, row[start : start + p.numel()]
            start += p.numel()

    def load(self, stage: int) -> None:
        """Give the pieces their values and the averaged gradients."""
        if stage == 1:
            for p, begin, end, _, piece in self.pieces:
                piece.grad = None if p.grad is None else p.grad.detach().reshape(-1)[begin:end]
        else:
            own, present = self.reduce_scatter()
            for p, begin, end, at, piece in self.pieces:
                piece.grad = own[at : at + end - begin] if id(p) in present else None
        for p, begin, end, _, piece in self.pieces:
            piece.copy_(p.detach().reshape(-1)[begin:end])

    def reduce_scatter(self) -> tuple[torch.Tensor, set[int]]:
        row = self.shard.new_zeros(self.part * self.world)
        present = set()
        for p, view in self.views(row):
            if p.grad is not None:
                view.copy_(p.grad.reshape(-1))
                present.add(id(p))
                p.grad = None
        own = self.shard.new_empty(self.part)
        dist.reduce_scatter_tensor(own, row)
        return own.div_(self.world), present

    def store(self) -> None:
        """Tell all ranks the new values."""
        row = self.shard.new_empty(self.part * self.world)
        dist.all_gather_into_tensor(row, self.shard)
        for p, view in self.views(row):
            p.copy_(view.view(p.shape))
        for *_, piece in self.pieces:
            piece.grad = None


class ZeroOptimizer:
    def __init__(self, params: Iterable[Any], optimizer_class: type, stage: int = 1, **kwargs: Any) -> None:
        given = list(params)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        self.stage = stage
        self.rows: list[Row] = []
        self.inner = optimizer_class([self._inside(group) for group in groups], **kwargs)

    def _inside(self, group: dict[str, Any]) -> dict[str, Any]:
        params = group["params"]
        row = Row([params] if isinstance(params, torch.Tensor) else list(params))
        self.rows.append(row)
        return {**group, "params": [piece for *_, piece in row.pieces]}

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.inner.param_groups

    @torch.no_grad()
    def step(self) -> None:
        for row in self.rows:
            row.load(self.stage)
        self.inner.step()
        for row in self.rows:
            row.store()

    def zero_grad(self) -> None:
        for row in self.rows:
            for p in row.params:
                p.grad = None

    def add_param_group(self, group: dict[str, Any]) -> None:
        self.inner.add_param_group(self._inside(group))
