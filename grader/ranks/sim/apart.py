"""What torch's own parallel tools keep once for a process, or do in a thread beside it: here each rank has its own."""

from __future__ import annotations

import sys
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from grader.ranks.sim import shapes

DISPATCH = "torch.distributed.tensor._dispatch"  # of DTensor; a second to import, so only looked at once it is there
SPEC = "torch.distributed.tensor._dtensor_spec"
ASYNC_SAVE = "torch.distributed.checkpoint._async_thread_executor"
_submit = ThreadPoolExecutor.submit


def save_in_turn() -> None:
    """Let async_save() of torch.distributed.checkpoint save at once, as the rank itself: a thread that it starts is no
    rank, and could not communicate."""

    def submit(self: ThreadPoolExecutor, call: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if getattr(call, "__module__", "") != ASYNC_SAVE:
            return _submit(self, call, *args, **kwargs)
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    ThreadPoolExecutor.submit = submit  # type: ignore[method-assign, assignment]


class Handlers:
    """DTensor's handlers of single operators, which `with loss_parallel():` and context_parallel() change."""

    def __init__(self) -> None:
        self._dispatcher: Any = None
        self._first: dict[Any, Any] = {}

    def swap(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """From one rank's to another's; both are the ranks' data."""
        if self._dispatcher is None:
            if DISPATCH not in sys.modules or (tensor := sys.modules.get("torch.distributed.tensor")) is None:
                return
            if (found := getattr(getattr(tensor, "DTensor", None), "_op_dispatcher", None)) is None:
                return  # it is being imported
            self._dispatcher, self._first = found, dict(found._custom_op_handlers)
            shapes.share(found.sharding_propagator, sys.modules[SPEC].DTensorSpec)
        before["handlers"] = self._dispatcher._custom_op_handlers
        self._dispatcher._custom_op_handlers = after.setdefault("handlers", dict(self._first))
