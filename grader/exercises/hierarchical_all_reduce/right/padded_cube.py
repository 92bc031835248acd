"""Works on a padded copy of shape nodes x ranks_per_node x piece: shards are its columns, copied out and in."""

import torch
import torch.distributed as dist


def turn(table, ranks, place, add):
    """Rows of `table` go round the ranks to the left; row p ends up summed on, or starts from, place p."""
    n = len(ranks)
    for i in range(n - 1):
        first = place + i + add
        incoming = torch.empty_like(table[0])
        request = dist.isend(table[first % n], ranks[place - 1])
        dist.recv(incoming, ranks[(place + 1) % n])
        request.wait()
        if add:
            table[(first + 1) % n] += incoming
        else:
            table[(first + 1) % n] = incoming


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, n = dist.get_rank(), dist.get_world_size()
    node, local = rank // ranks_per_node, rank % ranks_per_node
    nodes = n // ranks_per_node
    inside = list(range(node * ranks_per_node, (node + 1) * ranks_per_node))
    across = list(range(local, n, ranks_per_node))

    piece = -(-tensor.numel() // n)
    padded = tensor.new_zeros(n * piece)
    padded[: tensor.numel()] = tensor.flatten()
    table = padded.view(nodes, ranks_per_node, piece).transpose(0, 1).contiguous()

    turn(table, inside, local, add=True)
    mine = table[local]
    turn(mine, across, node, add=True)
    turn(mine, across, node, add=False)
    turn(table, inside, local, add=False)

    flat = table.transpose(0, 1).reshape(-1)[: tensor.numel()]
    tensor.copy_(flat.view(tensor.shape))
