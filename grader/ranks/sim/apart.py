"""What torch's own parallel tools keep once for a process, or do in a thread beside it: here each rank has its own."""

from __future__ import annotations

import builtins
import logging
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from grader.ranks.sim import shapes

DISPATCH = "torch.distributed.tensor._dispatch"  # of DTensor; a second to import, so only looked at once it is there
SPEC = "torch.distributed.tensor._dtensor_spec"
FSDP_TIMER = "torch.distributed.fsdp._debug_utils"
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


def give_up(needs_processes: Callable[[str], NoReturn]) -> None:
    """Give a program up that asks for a store, where ranks wait for each other in C++ and keep the baton, that handles
    signals, which only the first thread of a process may, or that uses torch's profiler, of which a process has one."""

    def store(*_: Any, **__: Any) -> NoReturn:
        needs_processes("it uses a store of torch.distributed")

    def handle(*_: Any) -> NoReturn:
        needs_processes("it handles signals")

    def profile(*_: Any, **__: Any) -> NoReturn:
        needs_processes("it uses torch's profiler")

    c10d._get_default_store = store
    for kind in (dist.TCPStore, dist.FileStore):
        kind.__init__ = store
    signal.signal = handle  # type: ignore[assignment]
    torch.autograd.profiler.profile.__init__ = profile


def swap_timers(before: dict[str, Any], after: dict[str, Any]) -> None:
    """What FSDP notes of the parts of its state dicts that are being timed, from one rank's to another's."""
    if (timer := getattr(sys.modules.get(FSDP_TIMER), "SimpleProfiler", None)) is not None:
        before["timed"] = timer.results, timer.profiling
        timer.results, timer.profiling = after.pop("timed", (defaultdict(float), set()))


class OfProcess:
    """What a program may change of its process: print, where that goes, its arguments and environment, loggers, and the
    default dtype. Each rank begins with what there is before the first."""

    def __init__(self) -> None:
        self._first = [_own(each) for each in self._now()]

    def swap(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """From one rank's to another's; both are the ranks' data."""
        before["process"], root = self._now(), logging.root
        kept = after["process"] if "process" in after else [_own(each) for each in self._first]
        (
            builtins.print, sys.stdout, sys.stderr, sys.argv, vars(os.environ)["_data"], dtype,
            root.handlers, root.manager.loggerDict, levels,
        ) = kept  # fmt: skip
        if dtype is not torch.get_default_dtype():
            torch.set_default_dtype(dtype)
        if levels != (root.level, root.manager.disable):
            root.manager.disable = levels[1]
            root.setLevel(levels[0])

    def _now(self) -> list[Any]:
        root = logging.root
        return [
            builtins.print, sys.stdout, sys.stderr, sys.argv, vars(os.environ)["_data"], torch.get_default_dtype(),
            root.handlers, root.manager.loggerDict, (root.level, root.manager.disable),
        ]  # fmt: skip


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, (list, dict)) else value


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
