"""One autograd function for dispatch, experts and combine: its backward runs the experts' backward pass itself."""

import torch
import torch.distributed as dist


def exchange(rows, give, take):
    out = torch.empty(sum(take), rows.size(1))
    dist.all_to_all_single(out, rows.contiguous(), output_split_sizes=take, input_split_sizes=give)
    return out


class Mixture(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, token, give, take, modules, whose):
        """weight: of each pair, in the order in which they are sent."""
        ctx.rows = exchange(x.detach()[token], give, take).requires_grad_()
        with torch.enable_grad():
            answer = torch.zeros_like(ctx.rows)
            for number, module in enumerate(modules):
                at = torch.nonzero(whose == number).squeeze(1)
                answer = answer.index_copy(0, at, module(ctx.rows[at]))
        ctx.answer, ctx.token, ctx.give, ctx.take = answer, token, give, take
        home = exchange(answer.detach(), take, give)
        ctx.save_for_backward(weight, home)
        return torch.zeros_like(x).index_add_(0, token, weight[:, None] * home)

    @staticmethod
    def backward(ctx, grad):
        weight, home = ctx.saved_tensors
        of_pair = grad[ctx.token]
        torch.autograd.backward(ctx.answer, exchange(weight[:, None] * of_pair, ctx.give, ctx.take))
        back = exchange(ctx.rows.grad, ctx.take, ctx.give)
        into = torch.zeros_like(grad).index_add_(0, ctx.token, back)
        return into, (of_pair * home).sum(1), None, None, None, None, None


class ExpertParallel(torch.nn.Module):
    def __init__(self, router, experts, k, capacity):
        super().__init__()
        self.router = router
        self.local = torch.nn.ModuleList(experts)
        self.k = k
        self.capacity = capacity

    def forward(self, x):
        n, rank, per = dist.get_world_size(), dist.get_rank(), len(self.local)
        top = self.router(x).topk(self.k, dim=-1)
        weight = top.values.softmax(dim=-1).t().reshape(-1)  # (choice, position)
        expert = top.indices.t().reshape(-1)
        token = torch.arange(x.size(0)).repeat(self.k)

        counts = torch.stack([torch.bincount(row, minlength=n * per) for row in top.indices.t()])  # [k, E]
        table = torch.empty(n * counts.numel(), dtype=counts.dtype)
        dist.all_gather_into_tensor(table, counts.reshape(-1))
        table = table.view(n, self.k, n * per)

        if self.capacity is not None:
            left = torch.full((n * per,), self.capacity)
            allowed = torch.zeros_like(table)
            for choice in range(self.k):
                for sender in range(n):
                    allowed[sender, choice] = torch.minimum(table[sender, choice], left)
                    left = left - allowed[sender, choice]
            keep = []
            for choice in range(self.k):
                seen = [0] * (n * per)
                for e in top.indices[:, choice].tolist():
                    keep.append(seen[e] < allowed[rank, choice, e])
                    seen[e] += 1
            keep = torch.tensor(keep, dtype=torch.bool)
            weight, expert, token, table = weight[keep], expert[keep], token[keep], allowed

        order = expert.argsort(stable=True)
        sizes = table.sum(1).view(n, n, per)  # [sender, owner, expert]
        whose = torch.cat([torch.arange(per).repeat_interleave(sizes[sender, rank]) for sender in range(n)])
        give, take = sizes[rank].sum(1).tolist(), sizes[:, rank].sum(1).tolist()
        return Mixture.apply(x, weight[order], token[order], give, take, list(self.local), whose)

    def finish_gradient_sync(self):
        waits = []
        for parameter in self.router.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            waits.append(dist.all_reduce(parameter.grad, async_op=True))
        for work in waits:
            work.wait()
