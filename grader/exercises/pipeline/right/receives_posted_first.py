"""All receives are posted before the first pass; gradients through loss * (1/m)."""

import torch
import torch.distributed as dist


class Link:
    def __init__(self, shape, m, up, down):
        self.acts = [torch.empty(shape) for _ in range(m)] if up is not None else []
        self.grads = [torch.empty(shape) for _ in range(m)] if down is not None else []
        self.act_work = [dist.irecv(a, up) for a in self.acts]
        self.grad_work = [dist.irecv(a, down) for a in self.grads]
        self.up, self.down = up, down
        self.out = {}

    def get_act(self, k):
        self.act_work[k].wait()
        a, self.acts[k] = self.acts[k], None
        return a

    def get_grad(self, k):
        self.grad_work[k].wait()
        a, self.grads[k] = self.grads[k], None
        return a

    def put(self, key, tensor, peer):
        if key[0] in self.out:
            self.out.pop(key[0]).wait()
        self.out[key[0]] = dist.isend(tensor.clone(), peer)

    def close(self):
        for w in self.out.values():
            w.wait()


def pipeline(actions, stage, inputs, targets, loss_fn, m):
    s, p = dist.get_rank(), dist.get_world_size()
    mb = inputs.size(0) // m
    link = Link(stage.activation_shape(mb), m, s - 1 if s else None, s + 1 if s + 1 < p else None)
    kept, result = {}, []
    nth_act = nth_grad = 0
    for kind, i in actions:
        if kind == "f":
            if s == 0:
                x = inputs.narrow(0, i * mb, mb).clone().requires_grad_()
            else:
                x = link.get_act(nth_act).requires_grad_()
                nth_act += 1
            y = stage(x)
            if s == p - 1:
                y = loss_fn(y, targets.narrow(0, i * mb, mb))
                result.append(y.detach())
            else:
                link.put("a%d" % i, y.detach(), s + 1)
            kept[i] = x, y
            y = None
        else:
            x, y = kept.pop(i)
            if s == p - 1:
                (y * (1 / m)).backward()
            else:
                y.backward(gradient=link.get_grad(nth_grad))
                nth_grad += 1
            if s:
                link.put("g", x.grad, s - 1)
            x = y = None
    link.close()
    if s == p - 1:
        return torch.stack(result).mean().item()


def run_gpipe(stage, inputs, targets, loss_fn, micro_batches):
    order = [("f", i) for i in range(micro_batches)] + [("b", i) for i in reversed(range(micro_batches))]
    return pipeline(order, stage, inputs, targets, loss_fn, micro_batches)


def run_1f1b(stage, inputs, targets, loss_fn, micro_batches):
    m = micro_batches
    w = min(m, dist.get_world_size() - dist.get_rank() - 1)
    order = [("f", i) for i in range(w)]
    for i in range(m):
        if i + w < m:
            order.append(("f", i + w))
        order.append(("b", i))
    return pipeline(order, stage, inputs, targets, loss_fn, m)
