"""In each rank: a small transformer, a mesh, and the learner's four functions in a training of some steps."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn import functional

from grader.ranks.model import compute

MARK = 0.001  # virtual seconds that begin a step: the trace is cut there


class _Attention(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s = x.shape[:2]
        q, k, v = (map_(x).view(b, s, self.heads, -1).transpose(1, 2) for map_ in (self.q, self.k, self.v))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(out.transpose(1, 2).flatten(2))


class _MLP(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.silu(self.up(x)))


class _Layer(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(width), _Attention(width, heads)
        self.mlp_norm, self.mlp = nn.LayerNorm(width), _MLP(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):  # type: ignore[misc]
    """Decoder-only, without positions of its own: tokens (b, s) int64 -> logits (b, s, vocabulary)."""

    def __init__(self, vocabulary: int, width: int, heads: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(_Layer(width, heads, hidden) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def _model(spec: dict[str, Any], values: dict[str, torch.Tensor]) -> Transformer:
    model = Transformer(*(spec[name] for name in ("vocabulary", "width", "heads", "hidden", "layers")))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(values[name])
    return model


def _mesh(sizes: dict[str, int]) -> DeviceMesh:
    return init_device_mesh(torch.get_default_device().type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def _laid_out(spec: dict[str, Any], values: dict[str, torch.Tensor], mesh: str) -> Any:
    return submission.parallelize(_model(spec, values), _mesh(spec[mesh]))  # type: ignore[name-defined]


def _optimizer(spec: dict[str, Any], model: nn.Module) -> torch.optim.Optimizer:
    if spec["adam"]:
        return torch.optim.AdamW(
            model.parameters(), spec["lr"], eps=spec["eps"], weight_decay=spec["decay"], foreach=False
        )
    return torch.optim.SGD(model.parameters(), spec["lr"], momentum=spec["momentum"], foreach=False)


def _steps(model: Any, optimizer: Any, tokens: torch.Tensor, masks: torch.Tensor) -> list[Any]:
    """What each step returned; tokens and masks are steps x batch x sequence."""
    found = []
    for batch, mask in zip(tokens, masks, strict=True):
        compute(MARK)
        loss = submission.train_step(model, optimizer, batch.clone(), mask.clone())  # type: ignore[name-defined]
        found.append(loss.item() if isinstance(loss, torch.Tensor) and loss.numel() == 1 else loss)
    return found


def train(
    _: Any, spec: dict[str, Any], values: dict[str, torch.Tensor], tokens: torch.Tensor, masks: torch.Tensor
) -> dict[str, Any]:
    """The losses of every step, and the bytes that parameters and optimizer state take on this rank."""
    model = _laid_out(spec, values, "mesh")
    optimizer = _optimizer(spec, model)
    for parameter in model.parameters() if spec["stale"] else ():
        parameter.grad = torch.ones_like(parameter)
    losses = _steps(model, optimizer, tokens, masks)
    kept: dict[str, list[Any]] = {}
    for parameter in model.parameters():
        for name, state in optimizer.state.get(parameter, {}).items():
            if isinstance(state, torch.Tensor) and state.dim():
                kept.setdefault(name, []).append(state)
    held = {"parameters": _bytes(model.parameters())} | {name: _bytes(tensors) for name, tensors in kept.items()}
    own = sum(tensor.numel() * tensor.element_size() for tensor in _local(model.parameters()))
    return {"losses": losses, "held": held, "own": own}


def resume(
    _: Any, spec: dict[str, Any], values: dict[str, torch.Tensor], tokens: torch.Tensor, masks: torch.Tensor,
    later_tokens: torch.Tensor, later_masks: torch.Tensor,
) -> dict[str, Any]:  # fmt: skip
    """Losses before a checkpoint, and after it on another mesh, of another model that loaded it.

    Both models are laid out before the first is trained, so what a rank knows of a mesh must be kept apart by model. The
    checkpoint is saved twice into one folder: the later state is the one to load.
    """
    model = _laid_out(spec, values, "mesh")
    optimizer = _optimizer(spec, model)
    other = _laid_out(spec, {name: value.flip(0) for name, value in values.items()}, "other")
    folder = os.path.abspath(spec["folder"])
    os.makedirs(folder, exist_ok=True)
    losses = []
    for part in (slice(spec["first_save"]), slice(spec["first_save"], None)):
        losses += _steps(model, optimizer, tokens[part], masks[part])
        submission.save(model, optimizer, folder)  # type: ignore[name-defined]
    files = _shared(folder)
    del model, optimizer
    model, optimizer = other, _optimizer(spec, other)
    submission.load(model, optimizer, folder)  # type: ignore[name-defined]
    return {"losses": losses + _steps(model, optimizer, later_tokens, later_masks), "files": files}


def _shared(folder: str) -> dict[str, int]:
    """The sizes of what all ranks saved, by name. Real ranks do not see each other's files, so they tell them."""
    dist.barrier()
    listed: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(listed, _listed(folder))
    if any(names != listed[0] for names in listed):
        texts = {}
        for name in listed[dist.get_rank()]:
            with open(os.path.join(folder, name), "rb") as file:
                texts[name] = file.read()
        every: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(every, texts)
        for name, text in {name: text for one in every for name, text in one.items() if name not in texts}.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "wb") as file:
                file.write(text)
    return _listed(folder)


def _listed(folder: str) -> dict[str, int]:
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            found[os.path.relpath(path, folder)] = os.path.getsize(path)
    return dict(sorted(found.items()))


def _local(tensors: Any) -> list[torch.Tensor]:
    return [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors]


def _bytes(tensors: Any) -> int:
    """Of the memory that these lie in here."""
    storages = [tensor.untyped_storage() for tensor in _local(tensors)]
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())
