"""As Megatron-LM has it: neighbours exchange tensors in a batch_isend_irecv. W runs while the exchange is under way."""

import torch
import torch.distributed as dist
from torch.distributed import P2POp, batch_isend_irecv


class Exchange:
    """What goes to and comes from one neighbour, begun now and waited for later."""

    def __init__(self, peer, send=None, shape=None):
        operations = []
        self.buffer = None
        if send is not None:
            operations.append(P2POp(dist.isend, send, peer))
        if shape is not None:
            self.buffer = torch.empty(shape)
            operations.append(P2POp(dist.irecv, self.buffer, peer))
        self.requests = batch_isend_irecv(operations) if operations else []

    def wait(self):
        for request in self.requests:
            request.wait()
        return self.buffer


def run_zb_h1(stage, inputs, targets, loss_fn, micro_batches):
    rank, size = dist.get_rank(), dist.get_world_size()
    before = rank - 1 if rank else None
    after = rank + 1 if rank < size - 1 else None
    rows = inputs.shape[0] // micro_batches
    shape = stage.activation_shape(rows)
    outputs, weights, losses = [], [], []

    def exchange(peer, send=None, receive=False):
        if peer is None:
            return None
        return Exchange(peer, send, shape if receive else None)

    def wait(exchanged):
        return None if exchanged is None else exchanged.wait()

    def forward(k, x):
        if before is None:
            x = inputs[k * rows : (k + 1) * rows]
        outputs.append(stage(x))

    def backward(k, grad):
        output = outputs.pop(0)
        if after is None:
            leaf = output.detach().requires_grad_(True)
            loss = loss_fn(leaf, targets[k * rows : (k + 1) * rows])
            losses.append(loss.item())
            (grad,) = torch.autograd.grad(loss, leaf)
            grad = grad / micro_batches
        weights.append(output)
        return stage.backward_input(output, grad)

    warm_up = min(micro_batches, size - rank - 1)
    steady = micro_batches - warm_up
    for k in range(warm_up):
        forward(k, wait(exchange(before, receive=True)))
        if k < warm_up - 1 or not steady:
            wait(exchange(after, send=outputs[-1].detach()))
    sending = exchange(after, send=outputs[-1].detach()) if warm_up and steady else None
    x = wait(exchange(before, receive=True)) if steady else None
    wait(sending)
    for k in range(steady):
        forward(warm_up + k, x)
        grad = wait(exchange(after, send=outputs[-1].detach(), receive=True))
        moving = exchange(before, send=backward(k, grad), receive=k < steady - 1)
        if k >= rank:
            stage.backward_weight(weights.pop(0))
        x = wait(moving)
    sending = None
    for k in range(steady, micro_batches):
        coming = exchange(after, receive=True)
        grad = backward(k, wait(coming))
        wait(sending)
        sending = exchange(before, send=grad)
        if len(weights) > rank:
            stage.backward_weight(weights.pop(0))
    for output in weights:
        stage.backward_weight(output)
    wait(sending)
    return sum(losses) / micro_batches if losses else None
