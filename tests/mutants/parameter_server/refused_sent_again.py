"""A worker whose gradient was refused sends the same one again, once it has had one accepted.

check: stale
kind: wrong_result
"""

import re

import torch
import torch.distributed as dist


def serve(parameters, workers, steps, lr, max_staleness):
    n = parameters.numel()
    version = 0
    sent = {}
    left = {w: steps for w in workers}
    waiting = {}

    def give(w, accepted):
        sent[w] = version
        dist.send(torch.cat([torch.tensor([float(accepted)]), parameters.detach()]), w)

    for w in workers:
        if steps > 0:
            dist.send(torch.tensor([n]), w)
            give(w, 0)
    if steps == 0:
        return
    buffer = torch.empty(n)
    while left:
        try:
            w = dist.recv(buffer)
        except RuntimeError as e:
            dead = re.search(r"rank (\d+) is gone", str(e))
            if dead is None:
                raise
            left.pop(int(dead.group(1)), None)
            waiting.pop(int(dead.group(1)), None) if max_staleness else None
            w = None
        if max_staleness > 0:
            if w is None:
                continue
            ok = version - sent[w] <= max_staleness
            if ok:
                parameters -= lr * buffer
                version += 1
                left[w] -= 1
            give(w, ok)
            if left[w] == 0:
                del left[w]
        else:
            if w is not None:
                waiting[w] = buffer.clone()
            if left and all(k in waiting for k in left):
                parameters -= lr * torch.stack([waiting[k] for k in waiting]).mean(0)
                version += 1
                group = [k for k in waiting if k in left]
                waiting = {}
                for k in group:
                    left[k] -= 1
                    give(k, 1)
                    if left[k] == 0:
                        del left[k]


def work(rank, gradient_fn, steps):
    if steps == 0:
        return
    n = torch.empty(1, dtype=torch.int64)
    dist.recv(n, 0)
    message = torch.empty(1 + int(n))
    dist.recv(message, 0)
    done = 0
    while done < steps:
        if done == 0 or message[0]:
            g = gradient_fn(message[1:]).contiguous()
        dist.send(g, 0)
        dist.recv(message, 0)
        done += int(message[0])
