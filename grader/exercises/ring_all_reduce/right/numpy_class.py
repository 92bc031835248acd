"""A class that adds with NumPy on memory it shares with torch."""

import numpy as np
import torch
import torch.distributed as dist


class Ring:
    """One rank's place in the ring and its pieces of the vector."""

    def __init__(self, vector: np.ndarray) -> None:
        self.size, self.rank = dist.get_world_size(), dist.get_rank()
        self.pieces = np.array_split(vector, self.size)

    def step(self, give: int, take: int, combine) -> None:
        outgoing = torch.from_numpy(self.pieces[give % self.size])
        incoming = torch.empty(self.pieces[take % self.size].size, dtype=outgoing.dtype)
        request = dist.isend(outgoing, (self.rank + 1) % self.size)
        dist.recv(incoming, (self.rank - 1) % self.size)
        request.wait()
        target = self.pieces[take % self.size]
        target[...] = combine(target, incoming.numpy())

    def reduce_scatter(self) -> None:
        for i in range(self.size - 1):
            self.step(self.rank - i, self.rank - i - 1, np.add)

    def all_gather(self) -> None:
        for i in range(self.size - 1):
            self.step(self.rank - i + 1, self.rank - i, lambda _, new: new)


def ring_all_reduce(tensor):
    vector = tensor.numpy().ravel().copy()
    ring = Ring(vector)
    ring.reduce_scatter()
    ring.all_gather()
    tensor.numpy()[...] = vector.reshape(tensor.shape)
