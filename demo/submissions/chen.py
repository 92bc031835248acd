import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    """Pass the tensors round the ring, N-1 times, and add what comes by."""
    rank = dist.get_rank()
    size = dist.get_world_size()
    send_buff = tensor.flatten().clone()
    recv_buff = send_buff.clone()
    accum = send_buff.clone()

    left = ((rank - 1) + size) % size
    right = (rank + 1) % size

    for i in range(size - 1):
        if i % 2 == 0:
            send_req = dist.isend(send_buff, right)
            dist.recv(recv_buff, left)
            accum[:] += recv_buff[:]
        else:
            send_req = dist.isend(recv_buff, right)
            dist.recv(send_buff, left)
            accum[:] += send_buff[:]
        send_req.wait()
    tensor.copy_(accum.view(tensor.shape))
