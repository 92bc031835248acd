"""A torch.optim.Optimizer whose parameters are views of one buffer a group, with an optimizer inside for each group."""

import torch
import torch.distributed as dist


class ZeroOptimizer(torch.optim.Optimizer):
    def __init__(self, params, optimizer_class, stage=1, **kwargs):
        self.optimizer_class, self.stage, self.inside = optimizer_class, stage, []
        super().__init__(params, kwargs)

    def add_param_group(self, group):
        super().add_param_group(group)
        group = self.param_groups[-1]
        n, rank = dist.get_world_size(), dist.get_rank()
        total = sum(p.numel() for p in group["params"])
        size = (total + n - 1) // n
        buffer = torch.zeros(n * size)
        low, high, start, pieces = rank * size, (rank + 1) * size, 0, []
        for p in group["params"]:
            end = start + p.numel()
            view = buffer[start:end].view_as(p)
            view.copy_(p.data)
            p.data = view
            a, b = max(start, low), min(end, high)
            if a < b:
                piece = torch.nn.Parameter(buffer[a:b])
                piece.whole, piece.where = p, slice(a - start, b - start)
                piece.shard = slice(a - low, b - low)
                pieces.append(piece)
            start = end
        options = {key: value for key, value in group.items() if key != "params"}
        groups = [{"params": pieces}]
        self.inside.append((self.optimizer_class(groups, **options), buffer, pieces))

    def zero_grad(self, set_to_none=True):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.zero_()

    def step(self, closure=None):
        n, rank = dist.get_world_size(), dist.get_rank()
        for group, (inner, buffer, pieces) in zip(self.param_groups, self.inside):
            inner.param_groups[0].update({key: value for key, value in group.items() if key != "params"})
            mine = buffer.view(n, -1)[rank]
            stepped = [piece for piece in pieces if piece.whole.grad is not None]
            if self.stage == 2:
                row = torch.zeros_like(buffer)
                start = 0
                for p in group["params"]:
                    if p.grad is not None:
                        row[start : start + p.numel()] = p.grad.reshape(-1) / n
                        p.grad = None
                    start += p.numel()
                reduced = torch.empty_like(mine)
                dist.reduce_scatter_tensor(reduced, row)
                for piece in stepped:
                    piece.grad = reduced[piece.shard]
            else:
                for piece in stepped:
                    piece.grad = piece.whole.grad.view(-1)[piece.where]
            inner.step()
            inner.zero_grad()
            dist.all_gather_into_tensor(buffer, mine.clone())
