"""An array that is another one in each process: what a worker has learnt from its own shows who trained together.

In the process that made it, it holds the values themselves. Each process that unpickles it asks at the rendezvous by
how much they are shifted there, and passes on what they were: Ray's controller hands them to the workers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.jobs.rays.rendezvous import tell


class Apart(np.ndarray[Any, Any]):
    """An array that knows what it was before it was shifted; what is computed from it does not."""

    unshifted: np.ndarray[Any, Any] | None = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.unshifted is None:
            return np.asarray(self).__reduce_ex__(protocol)
        return _received, (self.unshifted,)


def apart(values: np.ndarray[Any, Any], shift: float = 0.0) -> Apart:
    """`values` plus `shift`, in this process."""
    array: Apart = (values + values.dtype.type(shift)).view(Apart)
    array.unshifted = values
    return array


def _received(values: np.ndarray[Any, Any]) -> Apart:
    return apart(values, float(tell(what="apart")))
