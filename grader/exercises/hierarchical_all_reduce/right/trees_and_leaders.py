"""A binomial tree up to the node's first rank, a ring of these leaders, and a binomial tree down."""

import torch
import torch.distributed as dist


def up(row: torch.Tensor, first: int, local: int, size: int) -> None:
    """The node's sum ends on its first rank."""
    incoming = torch.empty_like(row)
    mask = 1
    while mask < size:
        if local & mask:
            dist.send(row, first + local - mask)
            return
        if local + mask < size:
            dist.recv(incoming, first + local + mask)
            row += incoming
        mask *= 2


def down(row: torch.Tensor, first: int, local: int, size: int) -> None:
    """The first rank's row goes to all of its node."""
    mask = 1
    while mask < size:
        if local & mask:
            dist.recv(row, first + local - mask)
            break
        mask *= 2
    mask //= 2
    while mask:
        if local + mask < size:
            dist.send(row, first + local + mask)
        mask //= 2


def leaders_ring(row: torch.Tensor, node: int, nodes: int, size: int) -> None:
    chunks = row.tensor_split(nodes)
    right, left = (node + 1) % nodes * size, (node - 1) % nodes * size
    for step in range(2 * (nodes - 1)):
        target = chunks[(node - step - 1) % nodes]
        incoming = torch.empty_like(target)
        request = dist.isend(chunks[(node - step) % nodes], right)
        dist.recv(incoming, left)
        request.wait()
        if step < nodes - 1:
            target += incoming
        else:
            target.copy_(incoming)


def hierarchical_all_reduce(tensor: torch.Tensor, ranks_per_node: int) -> None:
    node, local = divmod(dist.get_rank(), ranks_per_node)
    first = node * ranks_per_node
    row = tensor.contiguous().view(-1)
    up(row, first, local, ranks_per_node)
    if local == 0:
        leaders_ring(row, node, dist.get_world_size() // ranks_per_node, ranks_per_node)
    down(row, first, local, ranks_per_node)
    if not tensor.is_contiguous():
        tensor.copy_(row.view(tensor.shape))
