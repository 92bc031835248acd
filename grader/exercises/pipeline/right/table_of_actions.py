"""A table says what each stage does in which order; all receives are posted beforehand, told apart by tags."""

import torch
import torch.distributed as dist

FORWARD, BACKWARD = 0, 1


def gpipe_table(stages, rank, m):
    return [(FORWARD, k) for k in range(m)] + [(BACKWARD, k) for k in range(m)]


def one_f_one_b_table(stages, rank, m):
    """Go backward as soon as as many micro-batches are in flight as there are stages from here on."""
    table, sent, back = [], 0, 0
    while back < m:
        if sent < m and sent - back < stages - rank:
            table.append((FORWARD, sent))
            sent += 1
        else:
            table.append((BACKWARD, back))
            back += 1
    return table


def execute(table, stage, inputs, targets, loss_fn, m):
    rank, stages = dist.get_rank(), dist.get_world_size()
    first, last = rank == 0, rank == stages - 1
    actions = table(stages, rank, m)
    shape = stage.activation_shape(len(inputs) // m)

    def expect(peer, kind):
        buffers = [torch.empty(shape) for _ in range(m)]
        return [(buffer, dist.irecv(buffer, peer, tag=2 * k + kind)) for k, buffer in enumerate(buffers)]

    arriving = {}
    if not first:
        arriving[FORWARD] = expect(rank - 1, FORWARD)
    if not last:
        arriving[BACKWARD] = expect(rank + 1, BACKWARD)

    def arrived(kind, k):
        buffer, request = arriving[kind][k]
        request.wait()
        return buffer

    live, sent, returned, losses = {}, {}, [], []

    def forward(k):
        x = inputs.chunk(m)[k] if first else arrived(FORWARD, k).requires_grad_()
        y = stage(x)
        if last:
            y = loss_fn(y, targets.chunk(m)[k])
            losses.append(y)
        else:
            sent[k] = dist.isend(y.detach(), rank + 1, tag=2 * k + FORWARD)
        live[k] = x, y

    def backward(k):
        x, y = live.pop(k)
        if last:
            (y / m).backward()
        else:
            sent.pop(k).wait()
            y.backward(arrived(BACKWARD, k))
        if not first:
            returned.append(dist.isend(x.grad, rank - 1, tag=2 * k + BACKWARD))

    for kind, k in actions:
        (forward if kind == FORWARD else backward)(k)
    for request in returned:
        request.wait()
    return float(sum(losses)) / m if last else None


def run_gpipe(stage, inputs, targets, loss_fn, micro_batches):
    return execute(gpipe_table, stage, inputs, targets, loss_fn, micro_batches)


def run_1f1b(stage, inputs, targets, loss_fn, micro_batches):
    return execute(one_f_one_b_table, stage, inputs, targets, loss_fn, micro_batches)
