import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist


class DistributedModel(torch.nn.Module):
    """`module`, trained by all ranks together: every rank on its own data, as one process on all of it."""

    def __init__(self, module: torch.nn.Module, bucket_bytes: int = 25 * 2**20) -> None:
        super().__init__()
        self.module = module
        self.syncing = True
        with torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                dist.broadcast(tensor, src=0)
        self.buckets: list[list[torch.nn.Parameter]] = []
        room = 0
        for parameter in reversed([p for p in module.parameters() if p.requires_grad]):
            if room <= 0:  # the last gradients are ready first: buckets are filled from the end, alike on all ranks
                self.buckets.append([])
                room = bucket_bytes
            self.buckets[-1].append(parameter)
            room -= parameter.nbytes
            parameter.register_post_accumulate_grad_hook(self._on_gradient)
        self._begin_step()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module returns."""
        return self.module(*args, **kwargs)

    def finish_gradient_sync(self) -> None:
        """After the backward pass: every rank's gradients become the mean over all ranks."""
        while len(self.running) < len(self.buckets):  # those that wait for parameters which this rank did not use
            self._launch()
        parameters = [parameter for bucket in self.buckets for parameter in bucket]
        used = torch.tensor([float(parameter.grad is not None) for parameter in parameters])
        dist.all_reduce(used, op=dist.ReduceOp.MAX)
        used_anywhere = dict(zip(parameters, used.tolist()))
        for bucket, (flat, work) in zip(self.buckets, self.running):
            work.wait()
            for parameter, mean in zip(bucket, flat.split([parameter.numel() for parameter in bucket])):
                if used_anywhere[parameter]:
                    if parameter.grad is None:
                        parameter.grad = torch.empty_like(parameter)
                    parameter.grad.copy_(mean.view_as(parameter))
        self._begin_step()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, backward passes only accumulate gradients on this rank, and nothing is sent."""
        before, self.syncing = self.syncing, False
        try:
            yield
        finally:
            self.syncing = before

    def _begin_step(self) -> None:
        self.ready: set[torch.nn.Parameter] = set()
        self.running: list[tuple[torch.Tensor, dist.Work]] = []

    def _on_gradient(self, parameter: torch.nn.Parameter) -> None:
        """Launch the buckets that are full now, but never one before its turn: the order must be every rank's."""
        if not self.syncing:
            return
        self.ready.add(parameter)
        while len(self.running) < len(self.buckets) and self.ready.issuperset(self.buckets[len(self.running)]):
            self._launch()

    def _launch(self) -> None:
        """Begin the all-reduce of the next bucket; a parameter without a gradient brings zeros."""
        bucket = self.buckets[len(self.running)]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients]) / dist.get_world_size()
        self.running.append((flat, dist.all_reduce(flat, async_op=True)))
