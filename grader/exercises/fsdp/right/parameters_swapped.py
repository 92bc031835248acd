"""The module's own parameters are the shards; each gets its whole data for the time of a pass."""

import torch
import torch.distributed as dist
from torch import nn


class FullyShardedModel(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        self.n, self.rank = dist.get_world_size(), dist.get_rank()
        self.shapes, self.shards, self.whole, self.means = {}, {}, {}, {}
        for child in module.children():
            for p in child.parameters():
                p.register_post_accumulate_grad_hook(self.accumulated)
                self.shapes[p] = p.shape
                flat = self.padded(p.detach().clone())
                self.shards[p] = flat.view(self.n, -1)[self.rank].clone()
                self.whole[p] = torch.empty_like(flat)
                self.shard(p)
            child.register_forward_pre_hook(lambda child, args: self.gather_all(child))
            child.register_forward_hook(lambda child, args, out: self.shard_all(child))
            child.register_full_backward_pre_hook(lambda child, grads: self.gather_all(child))

    def padded(self, tensor):
        return nn.functional.pad(tensor.reshape(-1), (0, -tensor.numel() % self.n))

    def gather(self, p):
        whole = self.whole[p]
        whole.untyped_storage().resize_(whole.nbytes)
        dist.all_gather(list(whole.view(self.n, -1)), self.shards[p])
        p.data = whole[: self.shapes[p].numel()].view(self.shapes[p])

    def shard(self, p):
        p.data = self.shards[p]
        self.whole[p].untyped_storage().resize_(0)

    def gather_all(self, child):
        for p in child.parameters():
            self.gather(p)

    def shard_all(self, child):
        for p in child.parameters():
            self.shard(p)

    def accumulated(self, p):
        grads, p.grad = self.padded(p.grad), None
        self.means[p] = torch.empty_like(self.shards[p])
        dist.reduce_scatter(self.means[p], list(grads.view(self.n, -1)), op=dist.ReduceOp.SUM)
        self.means[p] /= self.n
        self.shard(p)

    def forward(self, x):
        return self.module(x)

    def finish_gradient_sync(self):
        for p, mean in self.means.items():
            p.grad = mean
        self.means = {}

    def full_state_dict(self):
        self.gather_all(self.module)
        state = {name: value.detach().clone() for name, value in self.module.state_dict().items()}
        self.shard_all(self.module)
        return state
