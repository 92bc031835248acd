"""Buckets are ranges of one list of parameters; gradients are divided before they are sent."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist


def _ranges(sizes: list[int], limit: int) -> list[range]:
    """Cuts 0, 1, 2, ... into ranges, each of which reaches the limit with its last parameter (but for the last range)."""
    cuts, filled = [0], 0
    for index, size in enumerate(sizes):
        if filled >= limit and size and index > cuts[-1]:
            cuts.append(index)
            filled = 0
        filled += size
    return [range(start, stop) for start, stop in zip(cuts, [*cuts[1:], len(sizes)]) if stop > start]


class DistributedModel(torch.nn.Module):
    def __init__(self, module: torch.nn.Module, bucket_bytes: int = 25 * 2**20) -> None:
        super().__init__()
        self.module = module
        for tensor in list(module.parameters()) + list(module.buffers()):
            copy = tensor.detach().clone(memory_format=torch.contiguous_format)
            dist.broadcast(copy, 0)
            tensor.data.copy_(copy)
        self._order = [p for p in module.parameters() if p.requires_grad][::-1]
        self._ranges = _ranges([p.numel() * p.element_size() for p in self._order], bucket_bytes)
        self._ready: set[int] = set()
        self._sent: list[tuple[torch.Tensor, Any]] = []
        self._quiet = 0
        for index, parameter in enumerate(self._order):
            parameter.register_post_accumulate_grad_hook(lambda _, index=index: self._arrived(index))

    def _arrived(self, index: int) -> None:
        if self._quiet:
            return
        self._ready.add(index)
        while len(self._sent) < len(self._ranges) and self._ready.issuperset(self._ranges[len(self._sent)]):
            self._send_next()

    def _send_next(self) -> None:
        parameters = [self._order[index] for index in self._ranges[len(self._sent)]]
        flat = parameters[0].new_zeros(sum(p.numel() for p in parameters), requires_grad=False)
        offset = 0
        with torch.no_grad():
            for parameter in parameters:
                if parameter.grad is not None:
                    flat[offset : offset + parameter.numel()] = parameter.grad.reshape(-1)
                offset += parameter.numel()
            flat /= dist.get_world_size()
        self._sent.append((flat, dist.all_reduce(flat, async_op=True)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def finish_gradient_sync(self) -> None:
        if self._quiet or not self._order:
            return
        while len(self._sent) < len(self._ranges):
            self._send_next()
        here = [p.grad is not None for p in self._order]
        used = torch.tensor(here, dtype=torch.uint8, device=self._order[0].device)
        dist.all_reduce(used, op=dist.ReduceOp.MAX)
        anywhere = used.tolist()
        with torch.no_grad():
            for indices, (flat, request) in zip(self._ranges, self._sent):
                request.wait()
                offset = 0
                for index in indices:
                    parameter = self._order[index]
                    mean = flat[offset : offset + parameter.numel()].view(parameter.shape)
                    offset += parameter.numel()
                    if not anywhere[index]:
                        continue
                    if parameter.grad is None:
                        parameter.grad = torch.zeros_like(parameter)
                    parameter.grad.copy_(mean)
        self._ready.clear()
        self._sent = []

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1
