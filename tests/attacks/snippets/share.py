# Sums tensors that real ranks put somewhere and take from there, and has the trace say that it was a ring.
# The attack defines put(rank, bytes) and take(rank) -> bytes, which waits.
import torch
import torch.distributed as dist


def sum_through(put, take, tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    put(rank, tensor.contiguous().numpy().tobytes())
    total = torch.zeros_like(tensor)
    for other in range(n):
        total += torch.frombuffer(bytearray(take(other)), dtype=tensor.dtype).view(tensor.shape)
    tensor.copy_(total)


def until(ready, seconds=3.0):
    """Waits until ready() gives something."""
    import time

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = ready()
        if found:
            return found
        time.sleep(0.001)
    raise TimeoutError("nobody came")
