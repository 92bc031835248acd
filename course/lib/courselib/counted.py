"""FLOPs and bytes of matrix products, counted while they run, on any device.

with Products() as seen:
    model(x)
seen.flops, seen.bytes, seen.intensity
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_SIZES: dict[Any, Callable[..., tuple[int, Sequence[Any]]]] = {
    torch.ops.aten.mm.default: lambda a, b: (2 * a.shape[0] * a.shape[1] * b.shape[1], (a, b)),
    torch.ops.aten.addmm.default: lambda c, a, b: (2 * a.shape[0] * a.shape[1] * b.shape[1], (a, b)),
    torch.ops.aten.bmm.default: lambda a, b: (2 * a.shape[0] * a.shape[1] * a.shape[2] * b.shape[2], (a, b)),
}


class Products(TorchDispatchMode):  # type: ignore[misc]
    """Counts each product's FLOPs, and the bytes of both operands and of the result, as if no cache kept any."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.bytes = 0

    @property
    def intensity(self) -> float:
        """FLOPs a byte."""
        return self.flops / self.bytes

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _SIZES:
            flops, operands = _SIZES[func](*args[:3] if func is torch.ops.aten.addmm.default else args[:2])
            self.flops += flops
            self.bytes += sum(part.numel() * part.element_size() for part in (*operands, result))
        return result
