"""What a linear layer, and a block of two, must give: forward and backward in numpy, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_erf: Callable[[Array], Array] = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(x: Array) -> tuple[Array, Array]:
    inner = 0.5 * (1 + _erf(x / math.sqrt(2)))
    return x * inner, inner + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


ACTIVATIONS: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "gelu": _gelu,
    "a leaky ReLU": lambda x: (np.where(x > 0, x, x / 4), np.where(x > 0, 1.0, 0.25)),
    "tanh": lambda x: (np.tanh(x), 1 - np.tanh(x) ** 2),
}


@dataclass(frozen=True)
class Linear:
    """Weight [out, in] and bias [out], or none."""

    weight: Array
    bias: Array | None

    def forward(self, x: Array) -> Array:
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias

    def grads(self, x: Array, grad: Array) -> tuple[Array, Array, Array]:
        """Of the input, the weight and the bias, for a gradient of the output."""
        flat, rows = grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1])
        return grad @ self.weight, flat.T @ rows, flat.sum(0)

    def partial(self, grad: Array) -> Callable[[int, int], Array]:
        """The gradient of the input that a rank of so many adds, from its columns alone."""

        def part(rank: int, n: int) -> Array:
            columns = np.array_split(np.arange(self.weight.shape[0]), n)[rank]
            return np.asarray(grad[..., columns] @ self.weight[columns])

        return part


@dataclass(frozen=True)
class Right:
    """What the unsplit block gives: each linear layer's input, and the gradients; those of `layers` are (weight, bias)."""

    output: Array
    input_grad: Array
    grads: tuple[tuple[Array, Array], ...]
    partial_input_grad: Callable[[int, int], Array]  # of a rank of so many, before the backward all-reduce


def linear(layer: Linear, x: Array, grad: Array) -> Right:
    into, weight, bias = layer.grads(x, grad)
    return Right(layer.forward(x), into, ((weight, bias),), layer.partial(grad))


def mlp(first: Linear, activation: str, second: Linear, x: Array, grad: Array) -> Right:
    hidden, slope = ACTIVATIONS[activation](first.forward(x))
    between, weight2, bias2 = second.grads(hidden, grad)
    through = between * slope
    into, weight1, bias1 = first.grads(x, through)
    return Right(second.forward(hidden), into, ((weight1, bias1), (weight2, bias2)), first.partial(through))
