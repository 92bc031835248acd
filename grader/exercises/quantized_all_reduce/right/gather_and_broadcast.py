"""One gather and one broadcast for each owner. Scales are powers of two, as microscaling formats have them."""

import math

import torch
import torch.distributed as dist


class Codec:
    def __init__(self, block):
        self.block = block

    def encode(self, vector):
        table = vector.reshape(-1, self.block)
        top = table.abs().amax(1)
        exponents = [math.frexp(value)[1] for value in top.tolist()]
        scale = torch.tensor([math.ldexp(1.0, max(e - 8, -126)) for e in exponents])
        return (table / scale.unsqueeze(1)).to(torch.float8_e4m3fn).view(torch.uint8), scale

    def decode(self, codes, scale):
        return (codes.view(torch.float8_e4m3fn).to(torch.float32) * scale.unsqueeze(1)).reshape(-1)


def quantized_all_reduce(tensor, block):
    world, me = dist.get_world_size(), dist.get_rank()
    if world == 1:
        return
    codec = Codec(block)
    vector = tensor.contiguous().reshape(-1)
    blocks = math.ceil(vector.numel() / block)
    counts = [blocks // world + (owner < blocks % world) for owner in range(world)]
    vector = torch.cat([vector, vector.new_zeros(blocks * block - vector.numel())])
    parts = vector.split([count * block for count in counts])

    reduced = None
    for owner, part in enumerate(parts):
        if not part.numel():
            continue
        encoded = codec.encode(part)
        boxes = [[torch.empty_like(x) for _ in range(world)] if owner == me else None for x in encoded]
        for x, box in zip(encoded, boxes):
            dist.gather(x, box, dst=owner)
        if owner == me:
            reduced = sum(codec.decode(c, s) for c, s in zip(*boxes))

    result = []
    for owner, part in enumerate(parts):
        if not part.numel():
            continue
        codes, scale = codec.encode(reduced if owner == me else torch.zeros_like(part))
        dist.broadcast(codes, src=owner)
        dist.broadcast(scale, src=owner)
        result.append(codec.decode(codes, scale))
    if result:
        tensor.copy_(torch.cat(result)[: tensor.numel()].reshape(tensor.shape))
