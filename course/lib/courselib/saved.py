"""How many bytes autograd keeps for the backward pass, now and at most.

count = SavedBytes(model.parameters())
with torch.autograd.graph.saved_tensors_hooks(count.pack, count.unpack):
    model(x).sum().backward()
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch


class _Kept:
    """A tensor that autograd keeps; dies when autograd lets go of it."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


class SavedBytes:
    """Counts each memory once, however many saved tensors share it, and none of the `ignored` tensors' memory."""

    def __init__(self, ignored: Iterable[Any] = ()) -> None:
        self.now = self.peak = 0
        self._ignored = {tensor.untyped_storage().data_ptr() for tensor in ignored}
        self._sharing: Counter[int] = Counter()

    def pack(self, tensor: Any) -> _Kept:
        """What autograd is to keep instead of `tensor`."""
        mine = getattr(tensor, "_local_tensor", tensor)  # of a DTensor: this rank's part
        kept, storage = _Kept(tensor.detach()), mine.untyped_storage()
        where, size = storage.data_ptr(), storage.nbytes()
        if where not in self._ignored:
            if not self._sharing[where]:
                self.now += size
                self.peak = max(self.peak, self.now)
            self._sharing[where] += 1
            weakref.finalize(kept, self._let_go, where, size).atexit = False
        return kept

    def unpack(self, kept: _Kept) -> Any:
        """The tensor, when the backward pass asks for it."""
        return kept.tensor

    def _let_go(self, where: int, size: int) -> None:
        self._sharing[where] -= 1
        if not self._sharing[where]:
            self.now -= size


def alive_bytes() -> int:
    """The bytes behind all plain tensors and parameters of this process, each storage once."""
    tensors = [each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter)]
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())
