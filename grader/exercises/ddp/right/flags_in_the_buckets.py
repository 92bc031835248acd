"""Closes a bucket once it has bucket_bytes, and sends who used what in the bucket itself."""

from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, parameters):
        self.parameters = parameters
        self.reset()

    def reset(self):
        self.missing = len(self.parameters)
        self.flat = self.work = None

    def start(self):
        like = self.parameters[0]
        sizes = [p.numel() for p in self.parameters]
        self.flat = torch.zeros(sum(sizes) + len(sizes), dtype=like.dtype)
        *pieces, flags = self.flat.split([*sizes, len(sizes)])
        for i, (p, piece) in enumerate(zip(self.parameters, pieces)):
            if p.grad is not None:
                piece.copy_(p.grad.flatten())
                flags[i] = 1
        self.pieces, self.flags = pieces, flags
        self.work = dist.all_reduce(self.flat, async_op=True)

    def finish(self):
        self.work.wait()
        for p, piece, users in zip(self.parameters, self.pieces, self.flags.tolist()):
            p.grad = piece.view(p.shape).div_(dist.get_world_size()) if users else None


class DistributedModel(nn.Module):
    def __init__(self, module, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = module
        self.hold = 0
        for value in [*module.parameters(), *module.buffers()]:
            dist.broadcast(value.detach(), 0)
        self.buckets, self.bucket_of = [], {}
        open_bucket, size = [], 0
        for p in [p for p in module.parameters() if p.requires_grad][::-1]:
            open_bucket.append(p)
            size += p.nbytes
            p.register_post_accumulate_grad_hook(self.arrived)
            if size >= bucket_bytes:
                self.close(open_bucket)
                open_bucket, size = [], 0
        if open_bucket:
            self.close(open_bucket)

    def close(self, parameters):
        bucket = Bucket(parameters)
        self.buckets.append(bucket)
        self.bucket_of |= dict.fromkeys(parameters, bucket)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def arrived(self, p):
        if self.hold:
            return
        self.bucket_of[p].missing -= 1
        for bucket in self.buckets:
            if bucket.work is None:
                if bucket.missing:
                    return
                bucket.start()

    def finish_gradient_sync(self):
        for bucket in self.buckets:
            if bucket.work is None:
                bucket.start()
        for bucket in self.buckets:
            bucket.finish()
            bucket.reset()

    @contextmanager
    def no_sync(self):
        self.hold += 1
        yield
        self.hold -= 1
