"""A class that calls functional collectives, and scales that leave some room below 448."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol


class Wire:
    def __init__(self, block):
        self.block, self.group = block, dist.group.WORLD
        self.n = dist.get_world_size()

    def a2a(self, t):
        return funcol.wait_tensor(funcol.all_to_all_single(t, None, None, self.group))

    def gather(self, t):
        return funcol.wait_tensor(funcol.all_gather_tensor(t, 0, self.group))

    def q(self, x):
        m = x.abs().amax(-1, keepdim=True) / 440.0
        m = torch.where(m == 0, torch.ones_like(m), m)
        return (x / m).to(torch.float8_e4m3fn).view(torch.uint8), m

    def dq(self, c, m):
        return c.view(torch.float8_e4m3fn).to(torch.float32) * m

    def run(self, flat):
        size = flat.numel()
        rows = -(-size // (self.n * self.block)) * self.n
        x = torch.nn.functional.pad(flat, (0, rows * self.block - size)).view(rows, self.block)
        c, m = self.q(x)
        parts = self.dq(self.a2a(c), self.a2a(m)).view(self.n, rows // self.n, self.block)
        c, m = self.q(parts.sum(0))
        return self.dq(self.gather(c), self.gather(m)).flatten()[:size]


@torch.no_grad()
def quantized_all_reduce(tensor: torch.Tensor, block: int) -> None:
    if dist.get_world_size() > 1 and tensor.numel():
        tensor.copy_(Wire(block).run(tensor.flatten()).reshape(tensor.shape))
