"""Learns the order in which rank 0's gradients come in the first step, and makes all ranks' buckets of it."""

import contextlib

import torch
import torch.distributed as dist


class DistributedModel(torch.nn.Module):
    def __init__(self, module, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = module
        self.limit = bucket_bytes
        everything = [p.data for p in module.parameters()] + list(module.buffers())
        flat = torch.cat([t.reshape(-1) for t in everything])  # one dtype per model: one message is enough
        dist.broadcast(flat, src=0)
        for tensor, values in zip(everything, torch.split(flat, [t.numel() for t in everything])):
            tensor.copy_(values.reshape(tensor.shape))
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.place = {p: i for i, p in enumerate(self.params)}
        self.arrived, self.buckets, self.sent, self.accumulating = [], None, [], False
        for p in self.params:
            p.register_post_accumulate_grad_hook(self.hook)

    def forward(self, x):
        return self.module(x)

    def hook(self, p):
        if self.accumulating:
            return
        self.arrived.append(self.place[p])
        if self.buckets is not None:
            have = set(self.arrived)
            while len(self.sent) < len(self.buckets) and have.issuperset(self.buckets[len(self.sent)]):
                self.send(self.buckets[len(self.sent)])

    def agree(self):
        """Rank 0's order, and what it did not use at the end, becomes that of all."""
        order = self.arrived + [i for i in range(len(self.params)) if i not in self.arrived]
        agreed = torch.tensor(order)
        dist.broadcast(agreed, src=0)
        self.buckets, size = [], self.limit
        for i in agreed.tolist():
            if size >= self.limit:
                self.buckets.append([])
                size = 0
            self.buckets[-1].append(i)
            size += self.params[i].nbytes

    def send(self, bucket):
        chunks = [self.params[i].grad for i in bucket]
        chunks = [torch.zeros_like(self.params[i]) if g is None else g for i, g in zip(bucket, chunks)]
        flat = torch.nn.utils.parameters_to_vector(chunks).div(dist.get_world_size())
        self.sent.append((flat, dist.all_reduce(flat, async_op=True)))

    @torch.no_grad()
    def finish_gradient_sync(self):
        if self.buckets is None:
            self.agree()
        for bucket in self.buckets[len(self.sent) :]:
            self.send(bucket)
        used = torch.zeros(len(self.params), dtype=torch.uint8)
        for i, p in enumerate(self.params):
            used[i] = p.grad is not None
        dist.all_reduce(used, op=dist.ReduceOp.MAX)
        for bucket, (flat, request) in zip(self.buckets, self.sent):
            request.wait()
            start = 0
            for i in bucket:
                p = self.params[i]
                if used[i]:
                    p.grad = flat[start : start + p.numel()].reshape(p.shape).clone()
                start += p.numel()
        self.arrived, self.sent = [], []

    @contextlib.contextmanager
    def no_sync(self):
        self.accumulating = True
        yield
        self.accumulating = False
