"""Every parameter belongs to one rank, the largest first to whoever has least; lists are scattered and gathered."""

import torch
import torch.distributed as dist


class ZeroOptimizer:
    def __init__(self, params, optimizer_class, stage=1, **kwargs):
        params = list(params)
        if not isinstance(params[0], dict):
            params = [dict(params=params)]
        self.stage, self.owned = stage, []
        self.optimizer = optimizer_class([self.share_out(group) for group in params], **kwargs)

    def share_out(self, group):
        shares = [[] for _ in range(dist.get_world_size())]
        for p in sorted(group["params"], key=lambda p: -p.numel()):
            min(shares, key=lambda share: sum(q.numel() for q in share)).append(p)
        self.owned.append(shares)
        return {**group, "params": shares[dist.get_rank()]}

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def add_param_group(self, group):
        self.optimizer.add_param_group(self.share_out(group))

    def zero_grad(self, set_to_none=True):
        for shares in self.owned:
            for share in shares:
                for p in share:
                    p.grad = None

    @staticmethod
    def rows(shares, values):
        longest = max(sum(p.numel() for p in share) for share in shares)
        rows = []
        for share in shares:
            row = torch.zeros(longest)
            start = 0
            for p in share:
                value = values(p)
                if value is not None:
                    row[start : start + p.numel()] = value.flatten()
                start += p.numel()
            rows.append(row)
        return rows

    @torch.no_grad()
    def step(self):
        me = dist.get_rank()
        if self.stage == 2:
            for shares in self.owned:
                rows = self.rows(shares, lambda p: p.grad)
                mine = torch.zeros_like(rows[0])
                dist.reduce_scatter(mine, rows)
                mine /= dist.get_world_size()
                start = 0
                for rank, share in enumerate(shares):
                    for p in share:
                        if rank != me:
                            p.grad = None
                        elif p.grad is not None:
                            p.grad = mine[start : start + p.numel()].view_as(p)
                        if rank == me:
                            start += p.numel()
        self.optimizer.step()
        if self.stage == 2:
            self.zero_grad()
        for shares in self.owned:
            rows = self.rows(shares, lambda p: p)
            gathered = [torch.empty_like(rows[0]) for _ in rows]
            dist.all_gather(gathered, rows[me])
            for share, row in zip(shares, gathered):
                for p in share:
                    p.copy_(row[: p.numel()].view_as(p))
                    row = row[p.numel() :]
