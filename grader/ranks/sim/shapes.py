"""The shapes of what DTensor's operators give, worked out once for all simulated ranks.

DTensor asks for them with every combination of an operator, shapes and placements that it has not met before, and its
own memory is one for each mesh, of which every rank has another: on four ranks it would ask four times, and to ask
takes half a millisecond. But the whole tensors' shapes are the same on all ranks, and follow from whole shapes alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

NAME = "_propagate_tensor_meta_non_cached"  # the propagator's method


def share(propagator: Any, spec: Any) -> None:
    """Have a ShardingPropagator of torch.distributed.tensor remember them. `spec` is DTensorSpec, what stands for a
    tensor in its schemas. Does nothing where that was done before."""
    if NAME not in vars(propagator):
        setattr(propagator, NAME, _remembered(getattr(propagator, NAME), spec))


def _remembered(work_out: Callable[[Any], Any], spec: Any) -> Callable[[Any], Any]:
    known: dict[Any, Any] = {}

    def told(value: Any) -> Any:
        """What the shapes follow from; two are equal only where nothing tells them apart, as 1 from 1.0."""
        if isinstance(value, spec):
            meta = value.tensor_meta
            return meta.shape, meta.stride, meta.dtype, value.mesh.device_type
        if isinstance(value, list | tuple):
            return type(value), *map(told, value)
        return type(value), value

    def remembered(schema: Any) -> Any:
        if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:
            return work_out(schema)  # its program works out shapes itself
        try:
            named = [(name, told(value)) for name, value in schema.kwargs_schema.items()]
            key = schema.op, told(schema.args_schema), *named, torch.get_default_dtype()
            found = known.get(key, known)
        except (AttributeError, TypeError):  # with an argument that cannot be looked up
            return work_out(schema)
        if found is known:
            found = known[key] = work_out(schema)
        return list(found) if isinstance(found, list) else found

    return remembered
