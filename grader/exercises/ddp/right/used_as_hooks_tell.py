"""Hooks note which parameters were used, since the last step that was averaged; buckets are counted down."""

from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn


class DistributedModel(nn.Module):
    def __init__(self, module, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = module
        with torch.no_grad():
            for t in list(module.parameters()) + list(module.buffers()):
                if t.numel():
                    c = t.detach().contiguous()
                    dist.broadcast(c, 0)
                    t.copy_(c)
        self.buckets, size = [[]], 0
        for p in reversed([p for p in module.parameters() if p.requires_grad]):
            if size >= bucket_bytes:
                self.buckets.append([])
                size = 0
            self.buckets[-1].append(p)
            size += p.numel() * p.element_size()
        self.where = {p: i for i, b in enumerate(self.buckets) for p in b}
        self.sync = True
        self.used = set()
        self.reset()
        for p in self.where:
            p.register_post_accumulate_grad_hook(self.ready)

    def reset(self):
        self.left = [len(b) for b in self.buckets]
        self.next = 0
        self.flying = []

    def forward(self, *a, **k):
        return self.module(*a, **k)

    def ready(self, p):
        self.used.add(p)
        if self.sync:
            self.left[self.where[p]] -= 1
            while self.next < len(self.buckets) and self.left[self.next] == 0:
                self.launch()

    def launch(self):
        ps = self.buckets[self.next]
        self.next += 1
        if ps:
            flat = torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1) for p in ps])
            self.flying.append((flat, dist.all_reduce(flat, async_op=True), ps))

    def finish_gradient_sync(self):
        while self.next < len(self.buckets):
            self.launch()
        params = list(self.where)
        if params:
            flags = torch.tensor([float(p in self.used) for p in params])
            dist.all_reduce(flags, dist.ReduceOp.MAX)
            alive = {p for p, f in zip(params, flags.tolist()) if f}
            n = dist.get_world_size()
            for flat, request, ps in self.flying:
                request.wait()
                flat /= n
                for p, g in zip(ps, flat.split([p.numel() for p in ps])):
                    if p in alive:
                        if p.grad is None:
                            p.grad = torch.empty_like(p)
                        p.grad.copy_(g.view_as(p))
        self.used.clear()
        self.reset()

    @contextmanager
    def no_sync(self):
        before, self.sync = self.sync, False
        try:
            yield
        finally:
            self.sync = before
