"""A table says what each stage does in which order. All receives are posted beforehand, and sends are waited for last."""

import torch
import torch.distributed as dist


def table(stages, rank, m):
    """The names of the passes in order: "F3" is the forward pass of micro-batch 3."""
    actions, forward, inputs, weights = [], 0, 0, 0
    while weights < m:
        if inputs - weights > rank or inputs == m:
            actions.append(("W", weights))
            weights += 1
        elif forward < m and forward - inputs < stages - rank:
            actions.append(("F", forward))
            forward += 1
        else:
            actions.append(("B", inputs))
            inputs += 1
    return actions


def run_zb_h1(stage, inputs, targets, loss_fn, micro_batches):
    rank, stages = dist.get_rank(), dist.get_world_size()
    first, last = rank == 0, rank == stages - 1
    xs, ys = inputs.chunk(micro_batches), targets.chunk(micro_batches)
    shape = stage.activation_shape(len(xs[0]))

    def expect(peer, kind):
        buffers = [torch.empty(shape) for _ in range(micro_batches)]
        return [(buffer, dist.irecv(buffer, peer, tag=2 * k + kind)) for k, buffer in enumerate(buffers)]

    activations = None if first else expect(rank - 1, 0)
    gradients = None if last else expect(rank + 1, 1)

    def arrived(messages, k):
        buffer, request = messages[k]
        request.wait()
        return buffer

    outputs, losses, sends = {}, [], []
    for kind, k in table(stages, rank, micro_batches):
        if kind == "F":
            outputs[k] = stage(xs[k] if first else arrived(activations, k))
            if not last:
                sends.append(dist.isend(outputs[k], rank + 1, tag=2 * k))
        elif kind == "B":
            if last:
                losses.append(loss_fn(outputs[k], ys[k]) / micro_batches)
                (grad,) = torch.autograd.grad(losses[-1], outputs[k])
            else:
                grad = arrived(gradients, k)
            grad = stage.backward_input(outputs[k], grad)
            if not first:
                sends.append(dist.isend(grad, rank - 1, tag=2 * k + 1))
        else:
            stage.backward_weight(outputs[k])
    for request in sends:
        request.wait()
    return sum(losses).item() if last else None
