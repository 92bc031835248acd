"""The receive is started first, then a blocking send, then the wait."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    world, me = dist.get_world_size(), dist.get_rank()
    if world == 1:
        return tensor
    after, before = (me + 1) % world, (me + world - 1) % world
    work = tensor if tensor.is_contiguous() else tensor.contiguous()
    pieces = torch.tensor_split(work.view(-1), world)
    scratch = work.new_empty(pieces[0].numel())
    for step in range(2 * (world - 1)):
        reducing = step < world - 1
        give, take = (me - step) % world, (me - step - 1) % world
        if not reducing:
            give, take = (me - step + world) % world, (me - step + world - 1) % world
        target = scratch[: pieces[take].numel()] if reducing else pieces[take]
        pending = dist.irecv(target, src=before)
        dist.send(pieces[give], dst=after)
        pending.wait()
        if reducing:
            pieces[take].add_(target)
    if work is not tensor:
        tensor.copy_(work)
    return tensor
