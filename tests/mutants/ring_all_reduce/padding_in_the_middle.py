"""Pads each chunk to the longest length but cuts the result as if the padding stood at the end.

check: any_length
kind: wrong_result
only: yes
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    pieces = tensor.reshape(-1).tensor_split(n)
    longest = pieces[0].numel()
    flat = tensor.new_zeros(n * longest)
    chunks = flat.split(longest) if longest else [flat] * n
    for chunk, piece in zip(chunks, pieces):
        chunk[: piece.numel()] = piece

    for step in range(n - 1):
        outgoing, own = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(own)
        request = dist.isend(outgoing, right)
        dist.recv(incoming, left)
        request.wait()
        own += incoming

    for step in range(n - 1):
        request = dist.isend(chunks[(rank + 1 - step) % n], right)
        dist.recv(chunks[(rank - step) % n], left)
        request.wait()

    tensor.copy_(flat[: tensor.numel()].view(tensor.shape))
