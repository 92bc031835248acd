"""Pairs of messages in one batch_isend_irecv, as Megatron-LM has them; GPipe's backward passes in reverse order."""

import torch
import torch.distributed as dist


def exchange(sends, recvs, shape):
    """sends: {peer: tensor}, recvs: [peer]"""
    ops = []
    bufs = {}
    for peer, t in sends.items():
        if t is not None:
            ops.append(dist.P2POp(dist.isend, t.detach(), peer))
    for peer in recvs:
        bufs[peer] = torch.empty(shape)
        ops.append(dist.P2POp(dist.irecv, bufs[peer], peer))
    if ops:
        for r in dist.batch_isend_irecv(ops):
            r.wait()
    return bufs


def run_gpipe(stage, inputs, targets, loss_fn, micro_batches):
    r, p = dist.get_rank(), dist.get_world_size()
    prev, nxt = r - 1, r + 1
    is_first, is_last = r == 0, r == p - 1
    x_list, y_list = inputs.chunk(micro_batches), targets.chunk(micro_batches)
    shape = stage.activation_shape(x_list[0].shape[0])
    xs, outs = [], []
    for i in range(micro_batches):
        x = x_list[i] if is_first else exchange({}, [prev], shape)[prev].requires_grad_(True)
        out = stage(x)
        if is_last:
            out = loss_fn(out, y_list[i]) / micro_batches
        else:
            exchange({nxt: out}, [], shape)
        xs.append(x)
        outs.append(out)
    loss = sum(o.item() for o in outs) if is_last else None
    for i in reversed(range(micro_batches)):
        if is_last:
            outs[i].backward()
        else:
            outs[i].backward(exchange({}, [nxt], shape)[nxt])
        if not is_first:
            exchange({prev: xs[i].grad}, [], shape)
        xs.pop(), outs.pop()
    return loss


def run_1f1b(stage, inputs, targets, loss_fn, micro_batches):
    r, p = dist.get_rank(), dist.get_world_size()
    prev, nxt = r - 1, r + 1
    is_first, is_last = r == 0, r == p - 1
    x_list, y_list = inputs.chunk(micro_batches), targets.chunk(micro_batches)
    shape = stage.activation_shape(x_list[0].shape[0])
    warm = min(p - r - 1, micro_batches)
    rest = micro_batches - warm
    fifo = []
    loss_sum = 0.0
    step = 0

    def fwd(x, i):
        nonlocal loss_sum
        if x is None:
            x = x_list[i]
        else:
            x.requires_grad_(True)
        out = stage(x)
        if is_last:
            out = loss_fn(out, y_list[i]) / micro_batches
            loss_sum += out.item()
        fifo.append((x, out))
        return out.detach()

    def bwd(g):
        x, out = fifo.pop(0)
        if is_last:
            out.backward()
        else:
            torch.autograd.backward(out, g)
        return None if is_first else x.grad

    def recv_prev():
        return None if is_first else exchange({}, [prev], shape)[prev]

    for i in range(warm):
        out = fwd(recv_prev(), i)
        exchange({nxt: out}, [], shape)
    x = recv_prev() if rest else None
    for k in range(rest):
        out = fwd(x, warm + k)
        g = None if is_last else exchange({nxt: out}, [nxt], shape)[nxt]
        dx = bwd(g)
        if k == rest - 1:
            x = None
            if not is_first:
                exchange({prev: dx}, [], shape)
        else:
            x = None if is_first else exchange({prev: dx}, [prev], shape)[prev]
    for i in range(warm):
        g = exchange({}, [nxt], shape)[nxt]
        dx = bwd(g)
        if not is_first:
            exchange({prev: dx}, [], shape)
    return loss_sum if is_last else None
