"""Every bucket is reduced in a hook, which waits for it there."""

import contextlib
import torch
import torch.distributed as dist
from torch import nn


class DistributedModel(nn.Module):
    def __init__(self, module, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = module
        self.world = dist.get_world_size()
        for t in list(module.parameters()) + list(module.buffers()):
            dist.broadcast(t.data, 0)
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.buckets = []
        size = bucket_bytes
        for p in reversed(self.params):
            if size >= bucket_bytes:
                self.buckets.append([])
                size = 0
            self.buckets[-1].append(p)
            size += p.numel() * p.element_size()
        self.bucket_of = {p: i for i, b in enumerate(self.buckets) for p in b}
        self.sync = True
        self.reset()
        for p in self.params:
            p.register_post_accumulate_grad_hook(self.hook)

    def reset(self):
        self.waiting = [len(b) for b in self.buckets]
        self.work = []

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def hook(self, p):
        if not self.sync:
            return
        self.waiting[self.bucket_of[p]] -= 1
        while len(self.work) < len(self.buckets) and self.waiting[len(self.work)] == 0:
            self.launch()

    def launch(self):
        bucket = self.buckets[len(self.work)]
        flat = torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1) for p in bucket])
        self.work.append((dist.all_reduce(flat), flat))

    def finish_gradient_sync(self):
        while len(self.work) < len(self.buckets):
            self.launch()
        used = torch.tensor([p.grad is not None for p in self.params], dtype=torch.uint8)
        dist.all_reduce(used, op=dist.ReduceOp.MAX)
        is_used = dict(zip(self.params, used.tolist()))
        for bucket, (work, flat) in zip(self.buckets, self.work):
            flat /= self.world
            at = 0
            for p in bucket:
                if is_used[p]:
                    p.grad = flat[at : at + p.numel()].view_as(p).clone()
                at += p.numel()
        self.reset()

    @contextlib.contextmanager
    def no_sync(self):
        before, self.sync = self.sync, False
        try:
            yield
        finally:
            self.sync = before
