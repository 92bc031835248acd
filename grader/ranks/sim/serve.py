"""A simulated world in this process: every rank a thread or a greenlet, from the program to its results.

Speaks the same frames as a real rank, but for all ranks at once: after loading and after each call one message "rest"
tells every rank's state, its trace and, where all returned, what came back.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import io
import itertools
import mmap
import os
import random
import re
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from grader.ranks import learner, model, watch
from grader.ranks.endless import RANK_BITS
from grader.ranks.faults import Fault
from grader.ranks.network import Network
from grader.ranks.sim.apart import Handlers, OfProcess, give_up, save_in_turn, swap_timers
from grader.ranks.sim.context import Context
from grader.ranks.sim.group import OfThread, install
from grader.ranks.sim.mishaps import Mishaps
from grader.ranks.sim.modules import Modules
from grader.ranks.sim.operations import Killed, Rank
from grader.ranks.sim.products import Products
from grader.ranks.sim.progress import Progress
from grader.ranks.sim.scheduler import Scheduler
from grader.ranks.sim.turns import Greenlets, Threads, Turns
from grader.ranks.sim.world import RankWorld, check
from grader.sandbox import LINUX, frames
from grader.sandbox.first import NOTE, TRACE_SIGNAL
from grader.trace.events import SPANS

Tell = Callable[..., None]
MANY = 32  # ranks; for fewer, starting anew with threads would cost more than greenlets save
CALLS_BETWEEN_COLLECTIONS = 16  # of garbage that torch and the program make
# Only code that draws random numbers pays for keeping each rank's generators apart.
_RANDOM = re.compile(
    r"rand|seed|shuffle|sample|dropout|normal|uniform|bernoulli|multinomial|init\.|nn\.", re.IGNORECASE
)


class _Printed(io.TextIOBase):
    """sys.stdout or sys.stderr of the running rank, in whichever world runs: a logger may keep it for longer."""

    encoding = "utf-8"
    scheduler: ClassVar[Scheduler]

    def __init__(self, stream: str, tell: Tell) -> None:
        self._stream, self._tell = stream, tell

    def write(self, text: str) -> int:
        rank = self.scheduler.current.number
        self._tell({"event": "printed", "rank": rank, "stream": self._stream, "text": text})
        return len(text)

    def flush(self) -> None:
        pass

    def reconfigure(self, **_: Any) -> None:
        pass  # every text is told at once

    def isatty(self) -> bool:
        return False


def world(start: dict[str, Any], channel: frames.Channel, tell: Tell) -> dict[str, Any] | None:
    """One simulated world's life, until there is no further call. Returns the start of the next world, or None."""
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    torch.autograd.set_multithreading_enabled(False)
    gc.collect()  # of the world before this one; in a world nothing of ours makes cycles,
    gc.disable()  # and a tenth of the time would go into looking for them
    faults = [Fault.from_json(fault) for fault in start["faults"]]
    scheduler = Scheduler(
        start["world"],
        Network.from_json(start["network"]),
        start["seed"],
        start["trace"],
        Mishaps(faults) if faults else None,
        _turns(start, tell),
    )
    context = Context(scheduler, start["file"], start["p2p_only"], tell, start["contents"], start["watched"])
    if context.watches:
        watch.install(lambda: context.watches[scheduler.current.number])
    check()
    install(context)
    learner.ban(start["banned"], context.refuse)
    model.begin(
        lambda seconds, name: scheduler.compute(seconds, context.line(), name),
        lambda: scheduler.current.data["ledger"],
    )
    save_in_turn()
    _virtual_clock(scheduler, context.progress)
    signal.signal(TRACE_SIGNAL, lambda *_: _tell_out_of_turn(scheduler, tell))
    if start["place"] is not None:
        give_up(context.needs_processes)
    learner.take_over_groups(lambda: begin_group(scheduler), start["own_group"])
    for rank in scheduler.ranks:
        rank.data["world"], rank.data["ledger"] = RankWorld(), model.Ledger()
    if LINUX:
        with contextlib.suppress(OSError):  # a batch process is interrupted less often: a fifth less per message
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        with contextlib.suppress(OSError):  # one thread runs at a time, and the baton goes faster on one processor
            os.sched_setaffinity(0, {start["processor"]})
    _Printed.scheduler = scheduler
    sys.stdout, sys.stderr = _Printed("stdout", tell), _Printed("stderr", tell)
    scheduler.on_switch = _switcher(start, tell)
    takes = functools.partial(Products, 1 / start["flops"]) if start["flops"] else contextlib.nullcontext

    def load(rank: Rank) -> dict[str, str]:
        with takes():
            return _load(rank, start, context)

    scheduler.run(load)
    problems: dict[str, str] = next(
        (rank.outcome for rank in scheduler.ranks if rank.state == "returned" and rank.outcome), {}
    )
    _report(scheduler, context, tell, {"problems": problems})
    for number in itertools.count(1):
        call = channel.next()
        if call is None or "arguments" not in call.header:
            break
        if number % CALLS_BETWEEN_COLLECTIONS == 0:
            gc.collect()
        arguments: list[list[Any]] = frames.decode(call.header["arguments"], call.blob, learner.tensor)
        seen = [learner.as_the_caller_sees(given) for given in arguments]
        for rank in scheduler.ranks:
            rank.data["ledger"] = model.Ledger()
        scheduler.run(_caller(call.header, arguments, context, takes))
        _note_faults(scheduler)
        _report(scheduler, context, tell, {}, seen)
    if call is not None and all(rank.state == "returned" for rank in scheduler.ranks):
        scheduler.run(_leave)
    scheduler.unwind()
    for rank in scheduler.ranks:
        rank.data.clear()
    _Printed.scheduler = Scheduler(1, Network(), 0)  # nothing of this world is to be kept
    if context.watches:
        watch.install(lambda: None)
    return call.header if call is not None else None


def _turns(start: dict[str, Any], tell: Tell) -> Turns:
    """Many ranks are greenlets, unless that was tried and the program cannot bear it."""
    c10d._register_process_group, c10d._unregister_process_group = _register, _unregister
    if start["threads"] or start["watched"] or start["flops"] or start["world"] < MANY:
        return Threads()

    def cannot(why: str) -> NoReturn:
        tell({"event": "needs_threads", "why": why})
        os._exit(0)

    known: dict[str, OfThread] = {}  # C++ keeps none of them alive

    def register(name: str, _: Any) -> None:
        if name not in known:
            known[name] = OfThread(lambda: cannot("C++ looks for a group by its name"))
            _register(name, known[name])

    c10d._register_process_group, c10d._unregister_process_group = register, lambda name: None
    return Greenlets(_kept_for_a_thread, cannot)


_gradients, _functions = torch.is_grad_enabled, torch._C._len_torch_function_stack
_included, _excluded = torch._C._dispatch_tls_local_include_set, torch._C._dispatch_tls_local_exclude_set
_hooks, _profiled = torch._C._autograd._top_saved_tensors_default_hooks, torch._C._autograd._profiler_enabled


def _kept_for_a_thread() -> Any:
    """What of torch's state is a thread's own and is changed by Python's `with`: gradients, inference, autocast, modes,
    hooks, transforms, profilers."""
    return _gradients(), _functions(), _included().raw_repr(), _excluded().raw_repr(), _hooks(True), _profiled()


_init = dist.init_process_group
_register, _unregister = c10d._register_process_group, c10d._unregister_process_group


def begin_group(scheduler: Scheduler) -> None:
    """Make the running rank's default group."""
    size, rank, hook = len(scheduler.ranks), scheduler.current.number, sys.excepthook
    _init("gloo", store=dist.HashStore(), rank=rank, world_size=size)
    sys.excepthook = hook  # torch puts its own around it, once for every group
    c10d._world.pg_group_ranks[dist.group.WORLD] = _places(size)


@functools.cache
def _places(size: int) -> dict[int, int]:
    """The default group's places of ranks, one table for all: one each would be a million entries on 1,024 ranks."""
    return {rank: rank for rank in range(size)}


def _leave(_: Rank) -> None:
    """Another world is to follow: torch's own record of this one's groups must not stay."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _load(rank: Rank, start: dict[str, Any], context: Context) -> dict[str, str]:
    """Make the rank's group and load the program in it. Returns which functions cannot be called, and why."""
    learner.seed(start["seed"])
    begin_group(context.scheduler)
    rank.data["stage"] = "compile"
    code = learner.compiled(start["source"], start["file"])
    rank.data["stage"] = "load"
    rank.data["module"], rank.data["functions"], problems = learner.load(code, start)
    rank.data["stage"] = "call"
    return problems


def _note_faults(scheduler: Scheduler) -> None:
    """What befell ranks and links for a while belongs into the trace, up to the end of the run."""
    if scheduler.mishaps is None:
        return
    last = max(rank.clock for rank in scheduler.ranks)
    for what, rank, peer, since, until in scheduler.mishaps.lasting():
        if since <= last:
            scheduler.span(SPANS.index(what), scheduler.ranks[rank], since, min(until, last), peer=peer)


def _virtual_clock(scheduler: Scheduler, progress: Progress | None) -> None:
    """The program's clocks tell virtual time, and sleeping takes it: but in threads and processes that ranks started,
    which are not simulated."""
    epoch = 1.7e9  # some moment, the same in every run
    real, really_sleep, process = time.monotonic, time.sleep, os.getpid()

    def is_rank() -> bool:
        return threading.get_ident() == scheduler.current.thread and os.getpid() == process

    def sleep(seconds: float) -> None:
        if not is_rank():
            really_sleep(seconds)
            return
        if progress is not None:
            progress.sleeps(seconds)
        scheduler.compute(seconds)

    def clock() -> float:
        if not is_rank():
            return real()
        if progress is not None:
            progress.reads_the_clock()
        return scheduler.current.clock

    time.sleep = sleep  # type: ignore[assignment]
    time.time = lambda: epoch + clock()
    time.monotonic = time.perf_counter = clock
    asyncio.BaseEventLoop.time = lambda _: real()  # type: ignore[method-assign, assignment] # it waits in real time


def _caller(
    header: dict[str, Any], arguments: list[list[Any]], context: Context, takes: Callable[[], Any]
) -> Callable[[Rank], Any]:
    def call(rank: Rank) -> Any:
        try:
            with takes():
                returned = learner.called(rank.data["functions"], header)(*arguments[rank.number])
                context.close_call(rank.number)
                return returned
        except Killed:
            raise
        except BaseException as error:
            learner.print_traceback(error)
            raise

    return call


def _report(
    scheduler: Scheduler, context: Context, tell: Tell, header: dict[str, Any], arguments: list[list[Any]] | None = None
) -> None:
    """Tell how every rank stands."""
    ranks = [_standing(rank, context.file) for rank in scheduler.ranks]
    _tell_trace(scheduler, tell)
    tree, blob = None, b""
    if arguments is not None and all(rank.state in ("returned", "killed") for rank in scheduler.ranks):
        values = [[list(arguments[rank.number]), rank.outcome] for rank in scheduler.ranks]
        tree, blob = frames.encode(values, learner.tensor_bytes)
    tell({"event": "rest", "ranks": ranks, "value": tree, **header}, blob)


def _tell_trace(scheduler: Scheduler, tell: Tell) -> None:
    """Tell what was recorded since the last time."""
    for rank in scheduler.ranks:
        records, rank.records = rank.records, bytearray()
        if records:
            tell({"event": "trace", "rank": rank.number}, bytes(records))


def _tell_out_of_turn(scheduler: Scheduler, tell: Tell) -> None:
    _tell_trace(scheduler, tell)
    tell({"event": "traced"})


def _standing(rank: Rank, file: str) -> dict[str, Any]:
    raised = learner.raised(rank.outcome, file, rank.data.get("stage", "load")) if rank.state == "raised" else None
    return {
        "state": rank.state,
        "blocked": rank.blocked.number if rank.blocked is not None else None,
        "raised": raised,
        "clock": rank.clock,
        "peak": rank.data["ledger"].peak,
        "thread": rank.thread,
    }


@functools.cache
def _running_page() -> mmap.mmap:
    """Eight bytes, shared with the grading process, in which this process notes which rank runs."""
    return mmap.mmap(NOTE, 8)


def _switcher(start: dict[str, Any], tell: Tell) -> Callable[[Rank, Rank], None]:
    """What happens when the baton goes from one rank to another: who runs is noted, and what is per process, kept."""
    running = _running_page()
    pack_into = struct.Struct("<q").pack_into
    watched, turns = start["watched"], itertools.count()
    per_rank = _RANDOM.search(start["source"] + start["harness"]) is not None
    environment = "environ" in start["source"] or "getenv" in start["source"]
    learner.settle_in(start, 0, tell)
    learner.be_rank(0)
    handlers = Handlers()
    modules = Modules(start["place"], start["source"]) if start["place"] is not None else None
    process = OfProcess() if start["place"] is not None else None

    def switch(before: Rank, after: Rank) -> None:
        nonlocal per_rank, environment
        if modules is not None and before is not after:
            modules.swap(before.data, after.data)
            if modules.found:
                per_rank = environment = True
        pack_into(running, 0, after.number | next(turns) << RANK_BITS if watched else after.number)
        c10d._world = after.data["world"]
        if process is not None and before is not after:
            process.swap(before.data, after.data)
        handlers.swap(before.data, after.data)
        swap_timers(before.data, after.data)
        if per_rank and before is not after:
            numpy = sys.modules.get("numpy.random")
            before.data["random"] = torch.get_rng_state(), random.getstate(), numpy and numpy.get_state()
            if "random" in after.data:
                ours, python, numpys = after.data["random"]
                torch.set_rng_state(ours)
                random.setstate(python)
                if numpy is not None and numpys is not None:
                    numpy.set_state(numpys)
        if environment:
            learner.be_rank(after.number)

    return switch
