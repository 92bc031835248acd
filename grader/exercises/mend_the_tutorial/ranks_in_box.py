"""In each rank: the models and tensors that the learner's functions are called with, and what became of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class _Given(nn.Module):  # type: ignore[misc]
    """Parameters as they are given."""

    def __init__(self, values: list[Tensor]) -> None:
        super().__init__()
        self.own = nn.ParameterList([nn.Parameter(value.clone()) for value in values])


def serve(
    server: Any, values: list[Tensor], gradients: list[list[Tensor | None]], rates: list[float]
) -> list[dict[str, Any]]:
    """What the parameters of a model are after each call of apply()."""
    model = _Given(values)
    own = list(model.parameters())
    serving = server(model)
    after = []
    for given, lr in zip(gradients, rates, strict=True):
        serving.apply([None if each is None else each.clone() for each in given], lr)
        now = list(model.parameters())
        after.append(
            {
                "values": [each.detach().clone() for each in own],
                "same": [a is b for a, b in zip(own, now, strict=False)] if len(now) == len(own) else [False],
                "leaves": [each.is_leaf and each.requires_grad for each in now],
            }
        )
    return after


class _Heads(nn.Module):  # type: ignore[misc]
    """Two layers, of which the sign of the batch's first number chooses one, and a third that nobody uses."""

    def __init__(self, values: list[Tensor]) -> None:
        super().__init__()
        rows, columns = values[0].shape
        self.left, self.right, self.idle = (nn.Linear(columns, rows).double() for _ in range(3))
        with torch.no_grad():
            for mine, given in zip(self.parameters(), values, strict=True):
                mine.copy_(given)

    def forward(self, x: Tensor) -> Any:
        return (self.left if x[0, 0] > 0 else self.right)(x)


def trained(train: Any, values: list[Tensor], how: list[float], batches: list[list[Tensor]]) -> dict[str, Any]:
    """One call of train(): what it returned, and the parameters after it. `how` is the learning rate, the momentum and
    the weight decay."""
    model = _Heads(values)
    lr, momentum, decay = how
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=momentum, weight_decay=decay)
    returned = train(model, [(x, y) for x, y in batches], optimizer, nn.functional.mse_loss)
    return {"returned": returned, "parameters": [each.detach() for each in model.parameters()]}


def masked(masked_loss: Any, logits: Tensor, labels: Tensor, mask: Tensor) -> dict[str, Any]:
    """A loss, and its gradient with respect to the logits, where there is one."""
    leaf = logits.clone().requires_grad_()
    loss = masked_loss(leaf * 1.0, labels, mask)
    joined = isinstance(loss, Tensor) and loss.numel() == 1 and loss.requires_grad
    if joined:
        loss.sum().backward()
    return {"loss": loss.detach() if isinstance(loss, Tensor) else loss, "joined": joined, "gradient": leaf.grad}


class _Stateful(nn.Module):  # type: ignore[misc]
    """A model with buffers of several dtypes, one of which is not part of its state, and a weight with two names."""

    def __init__(self, state: list[Tensor]) -> None:
        super().__init__()
        weight, running, steps, seen = state
        self.first = nn.Linear(weight.shape[1], weight.shape[0], bias=False).to(weight.dtype)
        with torch.no_grad():
            self.first.weight.copy_(weight)
        self.second = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("running", running.clone())
        self.register_buffer("steps", steps.clone())
        self.register_buffer("seen", seen.clone())
        self.register_buffer("scratch", torch.zeros(3), persistent=False)


def kept(snapshot: Any, state: list[Tensor]) -> dict[str, Any]:
    """A snapshot, read after the model has changed, and the model, read after the snapshot has changed."""
    model = _Stateful(state)
    found = snapshot(model)
    if not isinstance(found, dict) or not all(isinstance(each, Tensor) for each in found.values()):
        return {"type": type(found).__name__, "values": None}
    _spoil(model.state_dict())
    now = {name: each.detach().clone() for name, each in model.state_dict().items()}
    values = {str(name): each.detach().clone() for name, each in found.items()}
    joined = [str(name) for name, each in found.items() if each.requires_grad]
    before = {name: each.clone() for name, each in model.state_dict().items()}
    _spoil(found, also=1)
    shared = [name for name, each in model.state_dict().items() if not torch.equal(each, before[name])]
    return {
        "type": "dict", "names": list(values), "values": list(values.values()), "joined": joined, "shared": shared,
        "now": [now[name] for name in sorted(now)],
    }  # fmt: skip


def _spoil(state: dict[str, Tensor], also: int = 0) -> None:
    """Change every element of every tensor, in place."""
    with torch.no_grad():
        for each in {each.data_ptr(): each for each in state.values()}.values():
            each.logical_not_() if each.dtype == torch.bool else each.mul_(2).add_(7 + also)
