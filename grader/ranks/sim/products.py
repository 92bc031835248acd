"""The virtual time that matrix products take on simulated ranks. Runs in the box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop, sdpa_flop

from grader.ranks.model import compute

NAME = "mm"  # what pictures and judges call the span of a product
PLAIN = {torch.Tensor, torch.nn.Parameter}
FLOPS = {
    **flop_registry,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: sdpa_flop,  # torch counts that of GPUs only
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: sdpa_backward_flop,
}


class Products(TorchDispatchMode):  # type: ignore[misc]
    """While it is entered, every matrix product takes virtual time, in backward passes too.

    `seconds` are those of one floating-point operation. A product of m x k and k x n takes 2 m n k of them, whatever
    its dtype; batched products, convolutions and fused attention are counted as torch's FlopCounterMode counts them,
    and nothing else takes time. Tensors on the meta device count as well: they have shapes, so they take virtual time
    and no real time. Of a DTensor each rank's own product counts, not the one that all ranks make together.
    """

    ours = True  # see `watch`

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or the first operation would import all of it

    def __torch_dispatch__(
        self, func: Any, classes: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        count, kwargs = FLOPS.get(getattr(func, "overloadpacket", None)), kwargs or {}
        if count is None or FakeTensor in classes:  # with those, torch only wants to know what shapes come out
            return func(*args, **kwargs)
        if not PLAIN.issuperset(classes):
            return NotImplemented  # made of other tensors, as a DTensor is: their own products come here in turn
        out = func(*args, **kwargs)
        compute(self._seconds * count(*args, **kwargs, out_val=out), NAME)
        return out
