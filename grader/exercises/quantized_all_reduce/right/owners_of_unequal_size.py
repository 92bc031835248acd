"""Point to point, one message of codes and scales to each owner and back, owners of unequal size."""

import torch
import torch.distributed as dist

E4M3 = torch.float8_e4m3fn


def _encode(values):
    """float32 (blocks, block) -> uint8 row: all codes, then all scales."""
    scales = values.abs().amax(1) / 448
    scales[scales == 0] = 1.0
    codes = (values / scales.unsqueeze(1)).to(E4M3).view(torch.uint8)
    return torch.cat([codes.reshape(-1), scales.view(torch.uint8)])


def _decode(row, block):
    blocks = len(row) // (block + 4)
    codes, scales = row[: blocks * block].view(E4M3).to(torch.float32), row[blocks * block :].clone().view(torch.float32)
    return codes.view(blocks, block) * scales.unsqueeze(1)


def _swap(outgoing, incoming):
    """Starts and finishes all messages; both are dicts rank -> uint8 row, empty rows do not travel."""
    requests = [dist.irecv(row, rank) for rank, row in incoming.items() if len(row)]
    requests += [dist.isend(row, rank) for rank, row in outgoing.items() if len(row)]
    for request in requests:
        request.wait()


@torch.no_grad()
def quantized_all_reduce(tensor, block):
    n, rank = dist.get_world_size(), dist.get_rank()
    if n == 1 or tensor.numel() == 0:
        return
    blocks = -(-tensor.numel() // block)
    values = tensor.new_zeros(blocks * block)
    values[: tensor.numel()] = tensor.reshape(-1)
    values = values.view(blocks, block)
    per = -(-blocks // n)  # blocks of an owner; the last owners may have fewer, or none
    edges = [min(r * per, blocks) for r in range(n + 1)]
    sizes = [edges[r + 1] - edges[r] for r in range(n)]
    others = [r for r in range(n) if r != rank]

    def empty(count):
        return torch.empty(count * (block + 4), dtype=torch.uint8)

    outgoing = {r: _encode(values[edges[r] : edges[r + 1]]) for r in others if sizes[r]}
    incoming = {r: empty(sizes[rank]) for r in others}
    _swap(outgoing, incoming)
    total = values[edges[rank] : edges[rank + 1]].clone()
    if sizes[rank]:
        for r in others:
            total += _decode(incoming[r], block)

    final = {r: empty(sizes[r]) for r in range(n)}
    if sizes[rank]:
        final[rank] = _encode(total)
    _swap(dict.fromkeys(others, final[rank]), {r: final[r] for r in others})
    result = torch.cat([_decode(final[r], block) for r in range(n) if sizes[r]]).reshape(-1)
    tensor.copy_(result[: tensor.numel()].view(tensor.shape))
