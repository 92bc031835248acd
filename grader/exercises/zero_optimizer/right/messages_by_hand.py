"""Every rank exchanges shards with every other by isend and irecv, without a collective."""

import torch
import torch.distributed as dist


def exchange(outgoing, size):
    """Send outgoing[r] to each rank r; what comes from each."""
    me = dist.get_rank()
    incoming = [torch.empty(size) for _ in outgoing]
    incoming[me] = outgoing[me].clone()
    others = [rank for rank in range(len(outgoing)) if rank != me]
    work = [dist.irecv(incoming[rank], rank) for rank in others]
    work += [dist.isend(outgoing[rank].contiguous(), rank) for rank in others]
    for request in work:
        request.wait()
    return incoming


class Shard:
    """A group's row of numbers, of which this rank owns a stretch."""

    def __init__(self, params):
        self.params = list(params)
        self.world = dist.get_world_size()
        self.total = sum(p.numel() for p in self.params)
        self.size = -(-self.total // self.world)
        self.low = self.size * dist.get_rank()
        self.parts = []
        offset = 0
        for p in self.params:
            begin = min(max(self.low - offset, 0), p.numel())
            end = min(max(self.low + self.size - offset, 0), p.numel())
            self.parts.append((begin, end, torch.nn.Parameter(p.detach().flatten()[begin:end].clone())))
            offset += p.numel()

    def row(self, values):
        flat = torch.zeros(self.size * self.world)
        flat[: self.total] = torch.cat([value.reshape(-1) for value in values])
        return list(flat.chunk(self.world)) if self.world > 1 else [flat]


class ZeroOptimizer:
    def __init__(self, params, optimizer_class, stage=1, **kwargs):
        params = list(params)
        self.stage = stage
        self.shards = []
        if not isinstance(params[0], dict):
            params = [{"params": params}]
        self.optimizer = optimizer_class([self._own(group) for group in params], **kwargs)
        self.param_groups = self.optimizer.param_groups

    def _own(self, group):
        shard = Shard(group["params"])
        self.shards.append(shard)
        return {key: value if key != "params" else [part for *_, part in shard.parts] for key, value in group.items()}

    def add_param_group(self, group):
        self.optimizer.add_param_group(self._own(group))

    def zero_grad(self):
        for shard in self.shards:
            for p in shard.params:
                p.grad = None

    @torch.no_grad()
    def step(self):
        for shard in self.shards:
            there = [p.grad is not None for p in shard.params]
            if self.stage == 2:
                rows = shard.row([torch.zeros_like(p) if p.grad is None else p.grad for p in shard.params])
                mean = sum(exchange(rows, shard.size)) / shard.world
                for p in shard.params:
                    p.grad = None
            else:
                mean = torch.zeros(shard.size)
            start = 0
            for (begin, end, part), p, known in zip(shard.parts, shard.params, there):
                if self.stage == 1 and known:
                    part.grad = p.grad.flatten()[begin:end]
                else:
                    part.grad = mean[start : start + end - begin] if known else None
                start += end - begin
        self.optimizer.step()
        for shard in self.shards:
            mine = torch.zeros(shard.size)
            kept = torch.cat([part.detach() for *_, part in shard.parts])
            mine[: kept.numel()] = kept
            flat = torch.cat(exchange([mine] * shard.world, shard.size))[: shard.total]
            for p, value in zip(shard.params, flat.split([p.numel() for p in shard.params])):
                p.copy_(value.view_as(p))
            for *_, part in shard.parts:
                part.grad = None
