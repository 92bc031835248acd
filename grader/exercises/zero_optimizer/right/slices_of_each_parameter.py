"""Each parameter is cut into N slices; gradients go by one all-to-all and are added up where they arrive."""

import torch
import torch.distributed as dist


class ZeroOptimizer:
    def __init__(self, params, optimizer_class, stage=1, **kwargs):
        self.n, self.rank = dist.get_world_size(), dist.get_rank()
        self.stage = stage
        self.groups = []
        self.inner = None
        params = [*params]
        for group in params if isinstance(params[0], dict) else [{"params": params}]:
            if self.inner is None:
                self.inner = optimizer_class([self.sliced(group)], **kwargs)
            else:
                self.add_param_group(group)

    def padded(self, tensor):
        width = -(-tensor.numel() // self.n)
        flat = torch.zeros(self.n * width, dtype=tensor.dtype)
        flat[: tensor.numel()] = tensor.detach().flatten()
        return flat.reshape(self.n, width)

    def sliced(self, group):
        params = list(group["params"])
        slices = [torch.nn.Parameter(self.padded(p)[self.rank].clone()) for p in params]
        self.groups.append((params, slices))
        return dict(group, params=slices)

    @property
    def param_groups(self):
        return self.inner.param_groups

    def add_param_group(self, group):
        self.inner.add_param_group(self.sliced(group))

    def zero_grad(self):
        for params, _ in self.groups:
            for p in params:
                p.grad = None

    def step(self):
        for params, slices in self.groups:
            there = [(p, s) for p, s in zip(params, slices) if p.grad is not None]
            if self.stage != 2 or not there:
                for p, s in there:
                    s.grad = self.padded(p.grad)[self.rank]
                continue
            table = torch.cat([self.padded(p.grad) for p, _ in there], dim=1)
            self.zero_grad_of(params)
            arrived = torch.empty_like(table)
            dist.all_to_all_single(arrived, table)
            mean = arrived.mean(0)
            for (_, s), part in zip(there, mean.split([s.numel() for _, s in there])):
                s.grad = part.clone()
        self.inner.step()
        self.inner.zero_grad()
        with torch.no_grad():
            for params, slices in self.groups:
                mine = torch.cat([s.detach() for s in slices])
                everything = [torch.empty_like(mine) for _ in range(self.n)]
                work = dist.all_gather(everything, mine, async_op=True)
                work.wait()
                columns = torch.stack(everything).split([s.numel() for s in slices], dim=1)
                for p, column in zip(params, columns):
                    p.data = column.reshape(-1)[: p.numel()].view(p.shape)

    @staticmethod
    def zero_grad_of(params):
        for p in params:
            p.grad = None
