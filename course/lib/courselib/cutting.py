"""Models cut over ranks: f and g hung on the language model's layers, halves for a pipeline, and gathering."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from courselib import language
from courselib.saved import SavedBytes


def summed(x: Tensor) -> Tensor:
    total = x.detach().clone()
    dist.all_reduce(total)
    return total


def f(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    if inputs[0].requires_grad:
        inputs[0].register_hook(summed)


def g(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return output + (summed(output) - output).detach()


def cut(block: language.Block) -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    block.heads //= n
    heads = [part.chunk(n)[rank] for part in block.qkv.weight.chunk(3)]  # of Q, of K, of V
    block.qkv.weight = nn.Parameter(torch.cat(heads).detach())
    block.up.weight = nn.Parameter(block.up.weight.chunk(n)[rank].detach().clone())
    for layer in (block.qkv, block.up):  # columns; PyTorch keeps [out, in]
        layer.register_forward_pre_hook(f)
    for layer in (block.out, block.down):  # rows
        layer.weight = nn.Parameter(layer.weight.chunk(n, 1)[rank].detach().clone())
        layer.register_forward_hook(g)


class Front(nn.Module):  # type: ignore[misc]
    """The embeddings and the first block."""

    def __init__(self, model: language.Transformer) -> None:
        super().__init__()
        self.embed, self.place, self.block = model.embed, model.place, model.blocks[0]

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.block(self.embed(tokens) + self.place(torch.arange(tokens.shape[1])))
        return out


def halves(model: language.Transformer) -> tuple[nn.Module, nn.Module]:
    """Two stages of a pipeline, which share their weights with the model of two blocks."""
    return Front(model), nn.Sequential(model.blocks[1], model.norm, model.head)


def stage_report(
    model: language.Transformer, optimizer: torch.optim.Optimizer, schedule: Any, x: Tensor, y: Tensor
) -> dict[str, float]:
    """Of one of two stages: the model's held-out loss (true on stage 1 only), and the bytes that the stage keeps."""
    front, back = halves(model)
    rank = dist.get_rank()
    half = (front, back)[rank]
    count = SavedBytes(half.parameters())
    with torch.autograd.graph.saved_tensors_hooks(count.pack, count.unpack):
        schedule.step(*([x] if rank == 0 else []), target=y)
    for parameter in front.parameters():
        dist.broadcast(parameter.data, 0)
    state = language.state_bytes(optimizer)
    return {"after": language.held_out(model), "state": state, "activations": count.peak}


def gathered(x: Tensor) -> Tensor:
    """All ranks' columns side by side."""
    whole = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(whole, x.detach().contiguous())
    return torch.cat(whole, -1)


def gradient_of_mine(gradient: Tensor, scatter: bool) -> Tensor:
    """The summed gradient of the columns that this rank had before `gathered`, by reduce-scatter or by all-reduce."""
    columns = [part.contiguous() for part in gradient.chunk(dist.get_world_size(), -1)]
    if scatter:
        mine = torch.empty_like(columns[0])
        dist.reduce_scatter(mine, columns)
        return mine
    dist.all_reduce(gradient)
    return gradient.chunk(dist.get_world_size(), -1)[dist.get_rank()]
