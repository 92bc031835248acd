import torch
import torch.distributed as dist


class ZeroOptimizer:
    def __init__(self, params, optimizer_class, stage=1, **kwargs):
        self.stage = stage
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.rows = []
        self.inner = None
        self.make = lambda groups: optimizer_class(groups, **kwargs)
        params = list(params)
        if not isinstance(params[0], dict):
            params = [{"params": params}]
        for group in params:
            self.add_param_group(group)

    @property
    def param_groups(self):
        return self.inner.param_groups

    def add_param_group(self, group):
        group = dict(group)
        params = group.pop("params")
        if isinstance(params, torch.Tensor):
            params = [params]
        params = list(params)
        total = sum(p.numel() for p in params)
        part = (total + self.world - 1) // self.world
        lo = self.rank * part
        hi = lo + part
        pieces = []
        at = 0
        for p in params:
            a, b = max(lo, at), min(hi, at + p.numel())
            if a < b:
                piece = torch.nn.Parameter(p.detach().reshape(-1)[a - at:b - at].clone())
                pieces.append((p, a - at, b - at, a - lo, piece))
            at += p.numel()
        self.rows.append((params, part, pieces))
        mine = [piece for *_, piece in pieces] or [torch.nn.Parameter(torch.zeros(0, dtype=params[0].dtype))]
        group["params"] = mine
        if self.inner is None:
            self.inner = self.make([group])
        else:
            self.inner.add_param_group(group)

    @torch.no_grad()
    def step(self):
        for params, part, pieces in self.rows:
            if self.stage == 2:
                self.reduce(params, part, pieces)
            else:
                for p, a, b, _, piece in pieces:
                    piece.grad = None if p.grad is None else p.grad.reshape(-1)[a:b].clone()
        self.inner.step()
        for params, part, pieces in self.rows:
            shard = torch.zeros(part, dtype=params[0].dtype)
            for p, a, b, at, piece in pieces:
                shard[at:at + b - a] = piece
            row = torch.empty(part * self.world, dtype=shard.dtype)
            dist.all_gather_into_tensor(row, shard)
            at = 0
            for p in params:
                p.copy_(row[at:at + p.numel()].view(p.shape))
                at += p.numel()

    def reduce(self, params, part, pieces):
        row = torch.zeros(part * self.world, dtype=params[0].dtype)
        at = 0
        none = set()
        for p in params:
            if p.grad is None:
                none.add(p)
            else:
                row[at:at + p.numel()] = p.grad.reshape(-1)
            p.grad = None
            at += p.numel()
        own = torch.empty(part, dtype=row.dtype)
        dist.reduce_scatter_tensor(own, row)
        own /= self.world
        for p, a, b, at, piece in pieces:
            piece.grad = None if p in none else own[at:at + b - a].clone()

    def zero_grad(self):
        for params, _, _ in self.rows:
            for p in params:
                p.grad = None
