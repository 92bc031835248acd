"""Values and places lie bit for bit in one int32 row, which one all_gather_into_tensor sends to all."""

import torch
import torch.distributed as dist


def pack(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return torch.cat([values.contiguous().view(torch.int32), places.to(torch.int32)])


def unpack(row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    k = row.numel() // 2
    return row[:k].view(torch.float32), row[k:].to(torch.int64)


class TopKAllReduce:
    def __init__(self, ratio: float) -> None:
        self.ratio = ratio
        self.debts: dict[str, torch.Tensor] = {}

    def __call__(self, name: str, grad: torch.Tensor) -> torch.Tensor:
        if grad.numel() == 0:
            return grad.detach().clone()
        with torch.no_grad():
            debt = self.debts.setdefault(name, torch.zeros(grad.numel(), dtype=grad.dtype))
            debt += grad.reshape(-1)
            places = torch.topk(debt.abs(), max(1, int(self.ratio * grad.numel())), sorted=False).indices
            message = pack(debt[places], places)
            debt[places] = 0.0

            n = dist.get_world_size()
            everything = torch.empty(n * message.numel(), dtype=torch.int32)
            dist.all_gather_into_tensor(everything, message)

            result = torch.zeros(grad.numel(), dtype=grad.dtype)
            for row in everything.view(n, -1):
                values, where = unpack(row)
                result.index_put_((where,), values, accumulate=True)
            return result.div_(n).reshape(grad.shape)
