"""Plain loops and blocking sends where they cannot deadlock; gradients by autograd.grad, the last micro-batch first."""

import torch
import torch.distributed as dist


def run_gpipe(stage, inputs, targets, loss_fn, micro_batches):
    rank, n = dist.get_rank(), dist.get_world_size()
    size = len(inputs) // micro_batches
    parameters = [p for p in stage.parameters() if p.requires_grad]
    given, made, losses = [], [], []
    for k in range(micro_batches):
        part = slice(k * size, (k + 1) * size)
        if rank == 0:
            x = inputs[part]
        else:
            x = torch.zeros(*stage.activation_shape(size), requires_grad=True)
            dist.recv(x.data, src=rank - 1)
        y = stage(x)
        if rank < n - 1:
            dist.send(y, dst=rank + 1)
        else:
            y = loss_fn(y, targets[part])
            losses.append(y.item())
        given.append(x)
        made.append(y)
    total = [torch.zeros_like(p) for p in parameters]
    while made:
        x, y = given.pop(), made.pop()
        if rank == n - 1:
            grad = torch.tensor(1 / micro_batches)
        else:
            grad = torch.empty_like(y)
            dist.recv(grad, src=rank + 1)
        wanted = parameters if rank == 0 else [x, *parameters]
        found = torch.autograd.grad(y, wanted, grad)
        if rank > 0:
            dist.send(found[0].contiguous(), dst=rank - 1)
            found = found[1:]
        for one, more in zip(total, found):
            one += more
    for p, grad in zip(parameters, total):
        p.grad = grad
    return sum(losses) / micro_batches if rank == n - 1 else None


def run_1f1b(stage, inputs, targets, loss_fn, micro_batches):
    rank, n = dist.get_rank(), dist.get_world_size()
    is_first, is_last = rank == 0, rank == n - 1
    size = len(inputs) // micro_batches
    shape = stage.activation_shape(size)
    queue, loss_sum, forwards, backwards = [], torch.zeros(()), 0, 0
    request = back = None
    warm_up = n - 1 - rank
    while backwards < micro_batches:
        if forwards < micro_batches:
            if is_first:
                x = inputs[forwards * size : (forwards + 1) * size]
            else:
                x = torch.empty(shape)
                dist.recv(x, rank - 1)
                x.requires_grad = True
            if back is not None:
                back.wait()
                back = None
            y = loss = old_y = old_loss = None  # nothing refers to an output that has gone backward
            y = stage(x)
            if is_last:
                loss = loss_fn(y, targets[forwards * size : (forwards + 1) * size])
                loss_sum += loss.detach()
                queue.append((x, y, loss / micro_batches))
            else:
                if request is not None:
                    request.wait()
                request = dist.isend(y.detach(), rank + 1)
                queue.append((x, y, None))
            forwards += 1
            if forwards <= warm_up and forwards < micro_batches:
                continue
        old_x, old_y, old_loss = queue.pop(0)
        if is_last:
            old_loss.backward()
        else:
            grad = torch.empty(shape)
            dist.recv(grad, rank + 1)
            old_y.backward(grad)
        if not is_first:
            if back is not None:
                back.wait()
            back = dist.isend(old_x.grad, rank - 1)
        backwards += 1
    for left in (request, back):
        if left is not None:
            left.wait()
    return (loss_sum / micro_batches).item() if is_last else None
