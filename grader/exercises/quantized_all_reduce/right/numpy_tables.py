"""Every N-th block belongs to a rank; uneven all_to_all_singles of one tensor of bytes; sums by numpy."""

import numpy as np
import torch
import torch.distributed as dist


def squeeze(table: np.ndarray) -> torch.Tensor:
    with np.errstate(all="ignore"):
        scale = (np.abs(table).max(axis=1, initial=0) / np.float32(400)).astype(np.float32)
        ratio = np.where(scale[:, None] > 0, table / scale[:, None], 0).astype(np.float32)
    code = torch.from_numpy(ratio).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    return torch.from_numpy(np.concatenate([scale.view(np.uint8).reshape(-1, 4), code], axis=1))


def spread(rows: torch.Tensor) -> np.ndarray:
    scale = np.ascontiguousarray(rows.numpy()[:, :4]).view(np.float32)
    code = rows[:, 4:].contiguous().view(torch.float8_e4m3fn).float().numpy()
    return code * scale


def quantized_all_reduce(tensor: torch.Tensor, block: int) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    if n == 1:
        return
    values = tensor.detach().numpy().reshape(-1)
    table = np.zeros((-(-len(values) // block), block), np.float32)
    table.reshape(-1)[: len(values)] = values
    owners = np.arange(len(table)) % n
    order = np.argsort(owners, kind="stable")
    counts = [int((owners == owner).sum()) for owner in range(n)]

    got = torch.empty(counts[rank] * n, block + 4, dtype=torch.uint8)
    dist.all_to_all_single(got, squeeze(table[order]), [counts[rank]] * n, counts)
    total = spread(got).reshape(n, counts[rank], block).sum(axis=0)

    back = torch.empty(len(table), block + 4, dtype=torch.uint8)
    dist.all_to_all_single(back, squeeze(total).repeat(n, 1), counts, [counts[rank]] * n)
    table[order] = spread(back)
    tensor.copy_(torch.from_numpy(table.reshape(-1)[: len(values)].reshape(tuple(tensor.shape))))
