# A pipeline whose backward pass is cut in two. Each stage makes as many forward passes before its first backward pass as
# `ahead` begins with (those of ZB-H1 where it is None), and all W passes at the end: too much memory, and too late.
import torch
import torch.distributed as dist


def in_order(stage, inputs, targets, loss_fn, m, ahead):
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    shape = stage.activation_shape(len(inputs) // m)
    outputs, sends, losses = [], [], []
    first = min(last - rank + 1, m) if ahead is None else ahead[0]

    def received(peer):
        buffer = torch.empty(shape)
        dist.recv(buffer, peer)
        return buffer

    def forward(k):
        outputs.append(stage(inputs.chunk(m)[k] if rank == 0 else received(rank - 1)))
        if rank < last:
            sends.append(dist.isend(outputs[-1].detach(), rank + 1))

    def backward(k):
        if rank == last:
            leaf = outputs[k].detach().requires_grad_()
            loss = loss_fn(leaf, targets.chunk(m)[k]) / m
            loss.backward()
            losses.append(loss.item())
        grad = stage.backward_input(outputs[k], leaf.grad if rank == last else received(rank + 1))
        if rank > 0:
            sends.append(dist.isend(grad, rank - 1))

    for k in range(first):
        forward(k)
    for k in range(m):
        backward(k)
        if first + k < m:
            forward(first + k)
    for output in outputs:
        stage.backward_weight(output)
    for request in sends:
        request.wait()
    return sum(losses) if rank == last else None
