"""Bucket objects count the gradients that they still miss; one byte a parameter says who used it."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist


class _Bucket:
    """Parameters whose gradients travel together."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.parameters = parameters
        self.missing = len(parameters)
        self.flat = torch.empty(0)
        self.request = None

    def launch(self) -> None:
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        self.flat = torch.cat([gradient.detach().reshape(-1) for gradient in gradients])
        self.request = dist.all_reduce(self.flat, async_op=True)

    def collect(self, used: list[bool]) -> None:
        self.request.wait()
        self.flat.div_(dist.get_world_size())
        parts = self.flat.split([p.numel() for p in self.parameters])
        for parameter, part, somebody in zip(self.parameters, parts, used):
            if not somebody:
                continue
            if parameter.grad is None:
                parameter.grad = part.view(parameter.shape).clone()
            else:
                parameter.grad.copy_(part.view(parameter.shape))
        self.missing = len(self.parameters)
        self.flat = torch.empty(0)
        self.request = None


def _fill(parameters: list[torch.nn.Parameter], bucket_bytes: int) -> list[_Bucket]:
    """From the last parameter to the first; a bucket is closed when it is full."""
    buckets: list[_Bucket] = []
    current: list[torch.nn.Parameter] = []
    size = 0
    for parameter in reversed(parameters):
        more = parameter.numel() * parameter.element_size()
        if current and more and size >= bucket_bytes:
            buckets.append(_Bucket(current))
            current, size = [], 0
        current.append(parameter)
        size += more
    if current:
        buckets.append(_Bucket(current))
    return buckets


class DistributedModel(torch.nn.Module):
    def __init__(self, module: torch.nn.Module, bucket_bytes: int = 25 * 2**20) -> None:
        super().__init__()
        self.module = module
        with torch.no_grad():
            for tensor in [*module.parameters(), *module.buffers()]:
                value = tensor.detach().contiguous()
                dist.broadcast(value, src=0)
                if not tensor.is_contiguous():
                    tensor.copy_(value)
        self._buckets = _fill([p for p in module.parameters() if p.requires_grad], bucket_bytes)
        self._next = 0
        self._sync = True
        for bucket in self._buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(functools.partial(self._ready, bucket))

    def _ready(self, bucket: _Bucket, parameter: torch.nn.Parameter) -> None:
        if self._sync:
            bucket.missing -= 1
            while self._next < len(self._buckets) and self._buckets[self._next].missing == 0:
                self._launch_next()

    def _launch_next(self) -> None:
        self._buckets[self._next].launch()
        self._next += 1

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @torch.no_grad()
    def finish_gradient_sync(self) -> None:
        if not self._sync or not self._buckets:
            return
        while self._next < len(self._buckets):
            self._launch_next()
        parameters = [p for bucket in self._buckets for p in bucket.parameters]
        used = torch.tensor([p.grad is not None for p in parameters], dtype=torch.uint8, device=parameters[0].device)
        dist.all_reduce(used, op=dist.ReduceOp.MAX)
        flags = [bool(flag) for flag in used.tolist()]
        for bucket in self._buckets:
            count = len(bucket.parameters)
            bucket.collect(flags[:count])
            flags = flags[count:]
        self._next = 0

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before
