"""Each rank first plays the whole pipeline by itself, second by second, and then does what its own stage did there."""

import torch
import torch.distributed as dist


def played(stages, m):
    """What each stage does: B where a gradient has come, else F where memory allows, and W where it would wait."""
    done = [{"F": 0, "B": 0, "W": 0} for _ in range(stages)]
    orders = [[] for _ in range(stages)]
    while any(counts["W"] < m for counts in done):
        before = [dict(counts) for counts in done]
        for s, counts in enumerate(before):
            came = before[s - 1]["F"] if s else m
            back = before[s + 1]["B"] if s < stages - 1 else counts["F"]
            going, kept = counts["F"] - counts["B"], counts["F"] - counts["W"]
            if counts["B"] < min(back, counts["F"]) and going == min(stages - s, m - counts["B"]):
                what = "B"
            elif counts["F"] < min(came, m) and going < stages - s and kept < stages:
                what = "F"
            elif counts["W"] < counts["B"]:
                what = "W"
            else:
                continue
            orders[s].append((what, counts[what]))
            done[s][what] += 1
    return orders


class Link:
    """Sends to and receives from one neighbour, in order."""

    def __init__(self, peer, shape):
        self.peer, self.shape, self.request = peer, shape, None

    def put(self, tensor):
        self.flush()
        self.request = dist.isend(tensor, self.peer)

    def get(self):
        tensor = torch.zeros(self.shape, dtype=torch.float32)
        dist.irecv(tensor, self.peer).wait()
        return tensor

    def flush(self):
        if self.request is not None:
            self.request.wait()
        self.request = None


def run_zb_h1(stage, inputs, targets, loss_fn, micro_batches):
    rank, stages = dist.get_rank(), dist.get_world_size()
    rows = inputs.size(0) // micro_batches
    shape = stage.activation_shape(rows)
    up = Link(rank - 1, shape) if rank else None
    down = Link(rank + 1, shape) if rank + 1 < stages else None
    outputs, losses = [None] * micro_batches, []

    def part(batch, k):
        return batch.narrow(0, k * rows, rows)

    for what, k in played(stages, micro_batches)[rank]:
        if what == "F":
            outputs[k] = stage(up.get() if up else part(inputs, k))
            if down:
                down.put(outputs[k].detach().clone())
        elif what == "B":
            if down:
                grad = down.get()
            else:
                with torch.enable_grad():
                    output = outputs[k].clone().detach().requires_grad_(True)
                    loss = loss_fn(output, part(targets, k))
                (grad,) = torch.autograd.grad(loss / micro_batches, output)
                losses.append(loss.detach())
            grad = stage.backward_input(outputs[k], grad)
            if up:
                up.put(grad)
        else:
            stage.backward_weight(outputs[k])
            outputs[k] = None
    for link in (up, down):
        if link:
            link.flush()
    return None if down else float(torch.stack(losses).mean())
