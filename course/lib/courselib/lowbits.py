"""Numbers in 8 and 4 bits, emulated in float32: what a value becomes, with one scale or one for each block.

E2M1 has no torch dtype that casts; its 15 values are written out. Block formats: OCP Microscaling Formats (MX)
specification 1.0, 2023, section 5; NVFP4: NVIDIA, "Pretraining Large Language Models with NVFP4", arXiv 2509.25149.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from courselib.language import Transformer

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
_MIDDLES = (E2M1[1:] + E2M1[:-1]) / 2


def e4m3(x: Tensor) -> Tensor:
    return x.clamp(-448, 448).to(torch.float8_e4m3fn).float()


def e5m2(x: Tensor) -> Tensor:
    return x.clamp(-57344, 57344).to(torch.float8_e5m2).float()


def e2m1(x: Tensor) -> Tensor:
    return E2M1[torch.bucketize(x.abs(), _MIDDLES)] * x.sign()


def int8(x: Tensor) -> Tensor:
    return x.clamp(-127, 127).round()


def power_of_two(scale: Tensor) -> Tensor:
    """E8M0: a power of two, rounded up, so that nothing is clipped."""
    return torch.exp2(torch.ceil(torch.log2(scale)))


@dataclass(frozen=True)
class Format:
    """How a value is stored: a code, and a scale for each `block` values (0: one for the tensor).

    `largest` is the code's largest value; `bits` a value takes without its scale, `scale_bits` a scale.
    """

    name: str
    code: Callable[[Tensor], Tensor]
    largest: float
    bits: int
    block: int = 0
    scale: Callable[[Tensor], Tensor] = lambda s: s
    scale_bits: int = 32

    @property
    def bits_each(self) -> float:
        """Bits a value, scales included; one scale for a whole tensor counts as none."""
        return self.bits + (self.scale_bits / self.block if self.block else 0)

    def rounded(self, x: Tensor) -> Tensor:
        """What `x` is after it was stored and read again; blocks go along the last dimension."""
        rows = x.reshape(-1, self.block) if self.block else x.reshape(1, -1)
        greatest = rows.abs().amax(1, keepdim=True).clamp(min=1e-30)
        scale = self.scale(greatest / self.largest)
        return (self.code(rows / scale) * scale).reshape(x.shape)


def _nvfp4_scale(scale: Tensor) -> Tensor:
    """An E4M3 scale for each block, below one float32 scale for the tensor."""
    whole = scale.amax() / 448
    return e4m3(scale / whole).clamp(min=2**-9) * whole


INT8 = Format("INT8, one scale", int8, 127, 8)
FP8 = Format("FP8 E4M3, one scale", e4m3, 448, 8)
MXFP8 = Format("MXFP8, 32 a block", e4m3, 448, 8, 32, power_of_two, 8)
FP4 = Format("FP4 E2M1, one scale", e2m1, 6, 4)
MXFP4 = Format("MXFP4, 32 a block", e2m1, 6, 4, 32, power_of_two, 8)
NVFP4 = Format("NVFP4, 16 a block", e2m1, 6, 4, 16, _nvfp4_scale, 8)
FORMATS = (INT8, FP8, MXFP8, FP4, MXFP4, NVFP4)


class Rounded(nn.Module):  # type: ignore[misc]
    """A linear layer whose input and weights are stored in a format first; gradients pass as if they were not.

    `outlier` makes the first channel of the input so many times larger and its weights as much smaller: the layer
    computes the same function, only the sizes of numbers differ.
    """

    def __init__(self, layer: nn.Linear, kind: Format, outlier: float = 1.0) -> None:
        super().__init__()
        self.layer, self.kind = layer, kind
        self.sizes = torch.ones(layer.in_features)
        self.sizes[0] = outlier

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(self._through(x * self.sizes), self._through(self.layer.weight / self.sizes))

    def _through(self, x: Tensor) -> Tensor:
        return x + (self.kind.rounded(x.detach()) - x).detach()


def round_blocks(model: Transformer, kind: Format | None, outlier: float = 1.0) -> Transformer:
    """The same model, with the linear layers of its blocks in `kind`; None leaves them as they are."""
    if kind is None:
        return model
    for block in model.blocks:
        for name, layer in [*block.named_children()]:
            if isinstance(layer, nn.Linear):
                setattr(block, name, Rounded(layer, kind, outlier))
    return model
