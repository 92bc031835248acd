"""As Megatron: every exchange with a neighbour is one batch_isend_irecv, both ways together."""

from collections import deque
from types import SimpleNamespace

import torch
import torch.distributed as dist


def _exchange(*messages):
    """Sends and receives, begun together and all waited for. A message is (function, tensor, peer) or None."""
    operations = [dist.P2POp(*message) for message in messages if message is not None]
    if operations:
        for request in dist.batch_isend_irecv(operations):
            request.wait()


def _send(tensor, peer):
    return None if peer is None else (dist.isend, tensor.detach().contiguous(), peer)


def _receive(tensor, peer):
    return None if peer is None else (dist.irecv, tensor, peer)


def _begin(stage, inputs, targets, loss_fn, micro_batches):
    rank, size = dist.get_rank(), dist.get_world_size()
    return SimpleNamespace(
        stage=stage,
        loss_fn=loss_fn,
        micro_batches=micro_batches,
        up=rank - 1 if rank > 0 else None,
        down=rank + 1 if rank < size - 1 else None,
        behind=size - 1 - rank,
        inputs=deque(inputs.tensor_split(micro_batches)) if rank == 0 else None,
        targets=deque(targets.tensor_split(micro_batches)) if rank == size - 1 else None,
        shape=stage.activation_shape(inputs.shape[0] // micro_batches),
        received=deque(),
        sent=deque(),
        losses=[],
    )


def _room(s):
    return torch.empty(s.shape, dtype=torch.float32)


def _next_input(s):
    """The next micro-batch on the first stage; elsewhere room for it."""
    return s.inputs.popleft() if s.up is None else _room(s)


def _forward(s, x):
    """One micro-batch; its input and output (on the last stage: its loss) go to the ends of the queues."""
    if s.up is not None:
        x.requires_grad_(True)
    y = s.stage(x)
    if s.down is None:
        y = s.loss_fn(y, s.targets.popleft())
        s.losses.append(y.item())
        y = y / s.micro_batches
    s.received.append(x)
    s.sent.append(y)


def _backward(s, gradient):
    """The oldest micro-batch. Returns the gradient of its input, None on the first stage."""
    x, y = s.received.popleft(), s.sent.popleft()
    if s.down is None:
        y.backward()
    elif y.requires_grad:
        torch.autograd.backward(y, gradient)
    return x.grad if s.up is not None else None


def _end(s):
    return sum(s.losses) / len(s.losses) if s.down is None else None


def run_gpipe(stage, inputs, targets, loss_fn, micro_batches):
    s = _begin(stage, inputs, targets, loss_fn, micro_batches)
    for _ in range(micro_batches):
        x = _next_input(s)
        _exchange(_receive(x, s.up))
        _forward(s, x)
        _exchange(_send(s.sent[-1], s.down))
    for _ in range(micro_batches):
        gradient = _room(s)
        _exchange(_receive(gradient, s.down))
        gradient = _backward(s, gradient)
        _exchange(_send(gradient, s.up))
    return _end(s)


def run_1f1b(stage, inputs, targets, loss_fn, micro_batches):
    s = _begin(stage, inputs, targets, loss_fn, micro_batches)
    warm_up = min(s.behind, micro_batches)
    steady = micro_batches - warm_up
    for _ in range(warm_up):
        x = _next_input(s)
        _exchange(_receive(x, s.up))
        _forward(s, x)
        _exchange(_send(s.sent[-1], s.down))
    if steady:
        x = _next_input(s)
        _exchange(_receive(x, s.up))
    for left in range(steady - 1, -1, -1):
        _forward(s, x)
        gradient = _room(s)
        _exchange(_send(s.sent[-1], s.down), _receive(gradient, s.down))
        gradient = _backward(s, gradient)
        answer = _send(gradient, s.up)
        if left:
            x = _next_input(s)
            _exchange(answer, _receive(x, s.up))
        else:
            _exchange(answer)
    for _ in range(warm_up):
        gradient = _room(s)
        _exchange(_receive(gradient, s.down))
        gradient = _backward(s, gradient)
        _exchange(_send(gradient, s.up))
    return _end(s)
