"""No copy of the shard: before each step the inner optimizer's pieces are pointed at the parameters' own memory."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F


class Segment(NamedTuple):
    owner: int  # index of the parameter in its group
    first: int
    last: int
    piece: torch.nn.Parameter


def cut(params: list[torch.Tensor]) -> list[Segment]:
    """What of these parameters lies in this rank's N-th of all their elements."""
    ends = list(accumulate(p.numel() for p in params))
    share = -(-ends[-1] // dist.get_world_size())
    at = share * dist.get_rank()
    stop = min(at + share, ends[-1])
    segments = []
    while at < stop:
        owner = bisect_right(ends, at)
        begin = ends[owner] - params[owner].numel()
        last = min(ends[owner], stop)
        piece = torch.nn.Parameter(params[owner].detach().reshape(-1)[at - begin : last - begin])
        segments.append(Segment(owner, at - begin, last - begin, piece))
        at = last
    return segments


def row_of(tensors: list[torch.Tensor]) -> torch.Tensor:
    """All elements in one row, padded so that N divides its length."""
    flat = torch.cat([t.detach().reshape(-1) for t in tensors])
    return F.pad(flat, (0, -flat.numel() % dist.get_world_size()))


class ZeroOptimizer:
    def __init__(self, params: Iterable[Any], optimizer_class: type, stage: int = 1, **kwargs: Any) -> None:
        self.stage = stage
        self.members: list[list[torch.Tensor]] = []
        self.segments: list[list[Segment]] = []
        params = list(params)
        if not all(isinstance(one, dict) for one in params):
            params = [{"params": params}]
        self.optimizer = optimizer_class([self._register(group) for group in params], **kwargs)

    def _register(self, group: dict[str, Any]) -> dict[str, Any]:
        members = group["params"]
        members = [members] if isinstance(members, torch.Tensor) else list(members)
        self.members.append(members)
        self.segments.append(cut(members))
        return group | {"params": [segment.piece for segment in self.segments[-1]]}

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    def add_param_group(self, group: dict[str, Any]) -> None:
        self.optimizer.add_param_group(self._register(group))

    def zero_grad(self) -> None:
        for members in self.members:
            for p in members:
                p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for members, segments in zip(self.members, self.segments):
            self._gradients(members, segments)
        self.optimizer.step()
        for members, segments in zip(self.members, self.segments):
            self._exchange(members, segments)

    def _gradients(self, members: list[torch.Tensor], segments: list[Segment]) -> None:
        for owner, first, last, piece in segments:
            piece.grad = None
            piece.data = members[owner].detach().reshape(-1)[first:last]
        if self.stage == 1:
            for owner, first, last, piece in segments:
                if members[owner].grad is not None:
                    piece.grad = members[owner].grad.detach().reshape(-1)[first:last]
            return
        none = [p.grad is None for p in members]
        row = row_of([torch.zeros_like(p) if p.grad is None else p.grad for p in members])
        for p in members:
            p.grad = None
        own = row.new_empty(row.numel() // dist.get_world_size())
        dist.reduce_scatter_tensor(own, row)
        own /= dist.get_world_size()
        at = 0
        for owner, first, last, piece in segments:
            if not none[owner]:
                piece.grad = own[at : at + last - first]
            at += last - first

    def _exchange(self, members: list[torch.Tensor], segments: list[Segment]) -> None:
        world = dist.get_world_size()
        share = -(-sum(p.numel() for p in members) // world)
        shard = members[0].detach().new_zeros(share)
        at = 0
        for _, first, last, piece in segments:
            piece.grad = None
            shard[at : at + last - first] = piece
            at += last - first
        row = shard.new_empty(share * world)
        dist.all_gather_into_tensor(row, shard)
        at = 0
        for p in members:
            p.copy_(row[at : at + p.numel()].view(p.shape))
            at += p.numel()
