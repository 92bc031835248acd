import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    world, rank = dist.get_world_size(), dist.get_rank()
    if world == 1:
        return
    flat = tensor.reshape(-1).clone()
    chunks = list(torch.tensor_split(flat, world))
    right, left = (rank + 1) % world, (rank - 1) % world

    for step in range(world - 1):
        send_index = (rank - step) % world
        recv_index = (rank - step - 1) % world
        buffer = torch.empty_like(chunks[recv_index])
        request = dist.isend(chunks[send_index], right)
        dist.recv(buffer, left)
        request.wait()
        chunks[recv_index] += buffer

    for step in range(world - 1):
        send_index = (rank - step + 1) % world
        recv_index = (rank - step) % world
        request = dist.isend(chunks[send_index], right)
        dist.recv(chunks[recv_index], left)
        request.wait()

    tensor.copy_(flat.reshape(tensor.shape))
