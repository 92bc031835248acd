"""A request for every tensor and neighbour, mixed as each comes in; the mean from an all-gather."""

import torch
import torch.distributed as dist


@torch.no_grad()
def mix(parameters, neighbours, weights):
    old = [p.clone() for p in parameters]
    going, coming = [], []
    for number, x in enumerate(old):
        for j, w in zip(neighbours, weights):
            y = torch.full_like(x, float("nan"))
            going.append(dist.isend(x, j, tag=number))
            coming.append((dist.irecv(y, j, tag=number), parameters[number], y, w))
    keep = 1.0
    for w in weights:
        keep -= w
    for p in parameters:
        p *= keep
    for request, p, y, w in coming:
        request.wait()
        p += w * y
    for request in going:
        request.wait()


def gathered(x):
    everyone = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, x.contiguous())
    return torch.stack(everyone)


def local_sgd(model, steps, period, elastic=None):
    layers = [p.data for p in model.parameters()]
    centres = None
    if elastic is not None:
        centres = [gathered(x)[0] for x in layers]
        for x, c in zip(layers, centres):
            x.copy_(c)
    for step in range(steps):
        model.local_step(step)
        if step % period == period - 1:
            for k, x in enumerate(layers):
                everyone = gathered(x)
                if centres is None:
                    x.copy_(everyone.mean(0))
                else:
                    x -= elastic * (x - centres[k])
                    centres[k] = centres[k] + elastic * (everyone - centres[k]).sum(0)
