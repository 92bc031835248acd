"""Hooks on the gradient accumulators; the last bucket carries a flag for each parameter."""

from __future__ import annotations
import torch as th
import torch.distributed as D
from functools import partial


class _NoSync:
    def __init__(self, owner): self.owner = owner
    def __enter__(self): self.owner.quiet += 1
    def __exit__(self, *exc): self.owner.quiet -= 1; return False


class DistributedModel(th.nn.Module):
    def __init__(self, module, bucket_bytes: int = 25 << 20):
        super().__init__()
        self.module, self.quiet = module, 0
        with th.no_grad():
            everything = [*module.parameters(), *module.buffers()]
            for t in everything:
                c = t.detach().clone(memory_format=th.contiguous_format)
                D.broadcast(c, src=0)
                t.copy_(c)
        mine = [p for p in module.parameters() if p.requires_grad][::-1]
        total = sum(p.nbytes for p in mine)
        self.keep = []
        groups, fill = [], 0
        for p in mine:
            if fill == 0:
                groups.append([])
            groups[-1].append(p)
            fill += p.nbytes
            if fill >= bucket_bytes:
                fill = 0
        self.groups = groups
        self.index = {id(p): (g, i) for g, ps in enumerate(groups) for i, p in enumerate(ps)}
        self.got = [set() for _ in groups]
        self.flats, self.requests = [], []
        for p in mine:
            acc = p.expand_as(p).grad_fn.next_functions[0][0]
            acc.register_hook(partial(self._ready, p))
            self.keep.append(acc)

    def _ready(self, p, *_):
        if self.quiet:
            return
        g, i = self.index[id(p)]
        self.got[g].add(i)
        # the last bucket carries the flags of all: only at the end are they known
        while len(self.flats) < len(self.groups) - 1 and len(self.got[len(self.flats)]) == len(self.groups[len(self.flats)]):
            self._send()

    def _send(self, flags=()):
        g = len(self.flats)
        parts = [th.zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.detach().flatten() for p in self.groups[g]]
        dtype = parts[0].dtype
        flat = th.cat(parts + [th.tensor(flags, dtype=dtype)]).div_(D.get_world_size())
        self.flats.append(flat)
        self.requests.append(D.all_reduce(flat, async_op=True))

    def forward(self, *a, **k):
        return self.module(*a, **k)

    def finish_gradient_sync(self):
        while len(self.flats) < len(self.groups) - 1:
            self._send()
        order = [p for ps in self.groups for p in ps]
        if order:
            self._send([float(p.grad is not None) for p in order])
        for r in self.requests:
            r.wait()
        if order:
            flags = self.flats[-1][-len(order):]
            it = iter(flags.tolist())
            for ps, flat in zip(self.groups, self.flats):
                n = sum(p.numel() for p in ps)
                for p, piece in zip(ps, flat[:n].split([p.numel() for p in ps])):
                    if next(it) > 0:
                        if p.grad is None:
                            p.grad = th.empty_like(p)
                        p.grad.copy_(piece.view(p.shape))
        self.got = [set() for _ in self.groups]
        self.flats, self.requests = [], []

    def no_sync(self):
        return _NoSync(self)
