"""Cuts every parameter into N parts of its own; one inner optimizer a group, collectives on lists."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer


class _Group:
    def __init__(self, options: dict, cls: type[Optimizer], defaults: dict) -> None:
        self.n, self.me = dist.get_world_size(), dist.get_rank()
        params = options.pop("params")
        self.params: list[Tensor] = [params] if isinstance(params, Tensor) else list(params)
        self.widths = [-(-p.numel() // self.n) for p in self.params]
        self.flat = torch.cat([self.cut(p.data, w)[self.me] for p, w in zip(self.params, self.widths)])
        self.views = [v.requires_grad_() for v in self.flat.split(self.widths)]
        self.views = [v.detach().requires_grad_() for v in self.views]
        self.inner = cls([{"params": self.views, **options}], **defaults)
        live = self.inner.param_groups[0]
        self.public = live

    def cut(self, tensor: Tensor, width: int) -> list[Tensor]:
        out = tensor.new_zeros(width * self.n)
        out[: tensor.numel()] = tensor.reshape(-1)
        return list(out.view(self.n, width))

    def columns(self, tensors: list[Tensor]) -> list[Tensor]:
        per_rank = zip(*[self.cut(t, w) for t, w in zip(tensors, self.widths)])
        return [torch.cat(rows) for rows in per_rank]


class ZeroOptimizer:
    def __init__(self, params, optimizer_class, stage: int = 1, **kwargs) -> None:
        assert stage in (1, 2)
        self._cls, self._kw, self._stage = optimizer_class, kwargs, stage
        self._groups: list[_Group] = []
        items = list(params)
        for group in items if isinstance(items[0], dict) else [{"params": items}]:
            self.add_param_group(group)

    def add_param_group(self, group: dict) -> None:
        self._groups.append(_Group(dict(group), self._cls, self._kw))

    @property
    def param_groups(self) -> list[dict]:
        return [g.public for g in self._groups]

    @property
    def state(self):
        return {k: v for g in self._groups for k, v in g.inner.state.items()}

    def zero_grad(self, set_to_none: bool = True) -> None:
        for g in self._groups:
            for p in g.params:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad.zero_()

    @torch.no_grad()
    def step(self, closure=None):
        for g in self._groups:
            has = [p.grad is not None for p in g.params]
            if not any(has):
                continue
            grads = [p.grad if h else torch.zeros_like(p) for p, h in zip(g.params, has)]
            parts = g.columns(grads)
            del grads
            if self._stage == 2:
                for p in g.params:
                    p.grad = None
                own = torch.empty_like(parts[0])
                dist.reduce_scatter(own, parts, op=dist.ReduceOp.SUM)
                own.mul_(1.0 / g.n)
            else:
                own = parts[g.me]
            del parts
            for view, part, h in zip(g.views, own.split(g.widths), has):
                view.grad = part if h else None
            g.inner.step()
            for view in g.views:
                view.grad = None
            del own
            everything = [torch.empty_like(g.flat) for _ in range(g.n)]
            dist.all_gather(everything, torch.cat([v.data for v in g.views]))
            for p, *columns in zip(g.params, *[e.split(g.widths) for e in everything]):
                p.data.copy_(torch.cat(columns)[: p.numel()].view_as(p))
