"""A verdict of one byte and then the parameters, of which the last answer has none."""

import re

import torch
import torch.distributed as dist


def serve(parameters, workers, steps, lr, max_staleness):
    d = len(parameters)
    todo = {w: steps for w in workers if steps}
    seen, now, box = dict.fromkeys(workers, 0), 0, {}
    for w in todo:
        dist.send(torch.tensor([d], dtype=torch.int32), w)
        dist.send(parameters, w)
    g = torch.empty(d)

    def answer(w, verdict):
        seen[w] = now
        dist.send(torch.tensor([verdict], dtype=torch.uint8), w)
        if todo[w]:
            dist.send(parameters, w)
        else:
            todo.pop(w)

    while todo:
        try:
            who = dist.recv(g)
            box[who] = g.clone()
        except RuntimeError as problem:
            who = int(re.findall(r"rank (\d+)", str(problem))[0])
            todo.pop(who, None)
            box.pop(who, None)
        if max_staleness == 0:
            if todo and set(todo) == set(box):
                parameters.add_(torch.stack(list(box.values())).mean(0), alpha=-lr)
                now += 1
                for w in list(box):
                    todo[w] -= 1
                    answer(w, 1)
                box = {}
        elif who in box:
            gradient = box.pop(who)
            if now - seen[who] > max_staleness:
                answer(who, 0)
            else:
                parameters.add_(gradient, alpha=-lr)
                now += 1
                todo[who] -= 1
                answer(who, 1)


def work(rank, gradient_fn, steps):
    if not steps:
        return
    d = torch.empty(1, dtype=torch.int32)
    dist.recv(d, 0)
    x, flag = torch.empty(d.item()), torch.empty(1, dtype=torch.uint8)
    while steps:
        dist.recv(x, 0)
        while True:
            g = gradient_fn(x.clone())
            for r in dist.batch_isend_irecv([dist.P2POp(dist.isend, g, 0), dist.P2POp(dist.irecv, flag, 0)]):
                r.wait()
            if flag.item():
                break
            dist.recv(x, 0)
        steps -= 1
