"""A step object with forward() and backward(), and two channels a rank: blocking receives, one isend under way."""

from collections import deque
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn

LossFn = Callable[[Tensor, Tensor], Tensor]


class _Channel:
    """Messages to and from one neighbour."""

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.request = None

    def send(self, tensor: Tensor) -> None:
        self.flush()
        self.request = dist.isend(tensor.detach().contiguous(), self.peer)

    def receive(self, shape: tuple[int, ...]) -> Tensor:
        buffer = torch.empty(shape, dtype=torch.float32)
        dist.recv(buffer, self.peer)
        return buffer

    def flush(self) -> None:
        if self.request is not None:
            self.request.wait()
            self.request = None


class _Step:
    """One training step of one stage."""

    def __init__(self, stage: nn.Module, inputs: Tensor, targets: Tensor, loss_fn: LossFn, micro_batches: int) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.first, self.last = self.rank == 0, self.rank == self.size - 1
        self.stage, self.loss_fn, self.micro_batches = stage, loss_fn, micro_batches
        self.inputs = inputs.chunk(micro_batches) if self.first else ()
        self.targets = targets.chunk(micro_batches) if self.last else ()
        self.shape = tuple(stage.activation_shape(inputs.shape[0] // micro_batches))
        self.up = None if self.first else _Channel(self.rank - 1)
        self.down = None if self.last else _Channel(self.rank + 1)
        self.flight: deque[tuple[Tensor, Tensor]] = deque()
        self.begun = 0
        self.loss = 0.0

    def forward(self) -> None:
        if self.first:
            x = self.inputs[self.begun]
        else:
            x = self.up.receive(self.shape).requires_grad_()
        output = self.stage(x)
        if self.last:
            output = self.loss_fn(output, self.targets[self.begun]) / self.micro_batches
            self.loss += output.item()
        else:
            self.down.send(output)
        self.flight.append((x, output))
        self.begun += 1

    def backward(self) -> None:
        x, output = self.flight.popleft()
        if self.last:
            output.backward()
        else:
            gradient = self.down.receive(self.shape)
            if output.requires_grad:  # not so on a first stage that is frozen
                output.backward(gradient)
        if not self.first:
            self.up.send(x.grad)

    def finish(self) -> float | None:
        for channel in (self.up, self.down):
            if channel is not None:
                channel.flush()
        return self.loss if self.last else None


def run_gpipe(stage: nn.Module, inputs: Tensor, targets: Tensor, loss_fn: LossFn, micro_batches: int) -> float | None:
    step = _Step(stage, inputs, targets, loss_fn, micro_batches)
    for _ in range(micro_batches):
        step.forward()
    for _ in range(micro_batches):
        step.backward()
    return step.finish()


def run_1f1b(stage: nn.Module, inputs: Tensor, targets: Tensor, loss_fn: LossFn, micro_batches: int) -> float | None:
    step = _Step(stage, inputs, targets, loss_fn, micro_batches)
    warm_up = min(step.size - step.rank - 1, micro_batches)
    for _ in range(warm_up):
        step.forward()
    for _ in range(micro_batches - warm_up):
        step.forward()
        step.backward()
    for _ in range(warm_up):
        step.backward()
    return step.finish()
