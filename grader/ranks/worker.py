"""A rank: runs in a fork of the warm host. Sets up gloo, loads the submission, makes the calls it is told to.

Imports torch at the top: this is the module that the host keeps warm.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
import types
import warnings
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from grader.ranks import learner, lives, model
from grader.ranks.program import HOST
from grader.ranks.recorder import Recorder, install
from grader.ranks.sim import serve as sim
from grader.sandbox import frames, program
from grader.sandbox.first import STORE

# newer names for them are not in every torch that learners have: the course uses these
_OLD_NAMES = r".*(reduce_scatter_tensor|all_gather_into_tensor).*deprecated"
warnings.filterwarnings("ignore", _OLD_NAMES, FutureWarning)

GROUP_TIMEOUT = timedelta(minutes=10)  # longer than any limit of ours: a hang is ours to name, not gloo's


def serve(start: dict[str, Any], channel: frames.Channel) -> int:
    """Be one rank of a world, or one simulated world after another. Returns a status."""
    recorder = Recorder(channel.end)
    if start["engine"] == "sim":
        following: dict[str, Any] | None = start
        while following is not None:
            following = sim.world(following, channel, recorder.message)
        return 0
    if start["apart"]:
        return _supervise(start, channel, recorder)
    return _Rank(start, channel, recorder).live()


def _let_gloo_yield() -> None:
    """Run gloo's own threads only where no other wants the processor.

    A gloo thread polls without rest while a message is there that no receive is posted for; on fewer cores than ranks
    it keeps the very rank that would post it from running, for a scheduler tick each time. Measured on 2 cores: 30
    ring steps on 16 ranks 0.10 s, with this 0.02 s; but 2 s when the machine is busy, so it is for idle machines.
    """
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as comm:
            if comm.read().startswith("gloo"):
                os.sched_setscheduler(int(task), os.SCHED_IDLE, os.sched_param(0))


class DrawnOnHost(TorchFunctionMode):  # type: ignore[misc]
    """Under a default device: what a generator of the host draws is made in the host's memory, as without one. torch
    would look for it on the default device, where that generator cannot draw, and raise."""

    def __torch_function__(self, func: Any, classes: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        generator = kwargs.get("generator")
        if generator is not None and kwargs.get("device") is None and func in _device_constructors():
            kwargs = {**kwargs, "device": generator.device}
        return func(*args, **kwargs)


class _Rank:
    """This process as one rank: from the program to its results, until there is no further call."""

    def __init__(self, start: dict[str, Any], channel: frames.Channel, recorder: Recorder) -> None:
        self._start, self._channel, self._recorder = start, channel, recorder
        self._device = torch.device(start["device"])

    def live(self) -> int:
        start, recorder, file = self._start, self._recorder, self._start["file"]
        learner.seed(start["seed"])
        self._join()
        recorder.begin(start["rank"], start["world"], file, start["p2p_only"])
        install(recorder)
        if start["watched"]:
            recorder.watch_memory()
        learner.ban(start["banned"], recorder.refuse)
        stage = "compile"
        try:
            code = compile(start["source"], file, "exec", dont_inherit=True)
            stage = "load"
            _, functions, problems = learner.load(code, start)
        except BaseException as error:
            recorder.message(learner.raised(error, file, stage))
            return _stay(self._channel)
        return self._make_calls(functions, problems)

    def _join(self) -> None:
        """Begin the default group with the other ranks."""
        start, rank, world = self._start, self._start["rank"], self._start["world"]
        learner.settle_in(start, start["port"], self._recorder.message)
        learner.be_rank(rank)
        if start["place"] is not None:  # whoever looks on sees each line at once
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        if start["device"] == "cuda":
            self._device = torch.device("cuda", rank % torch.cuda.device_count())
            torch.cuda.set_device(self._device)
            torch.cuda.manual_seed(start["seed"])
        if start["device"] != HOST:
            torch.set_default_device(self._device)
            DrawnOnHost().__enter__()
            self._recorder.staged = start["backend"] == "gloo"
        attempts = itertools.count()
        init, first = dist.init_process_group, rank == 0
        meeting = dist.HashStore()
        if world > 1:  # the ranks share a network and no folder
            listening = STORE if first else None
            meeting = dist.TCPStore(
                "127.0.0.1", start["port"], world, first, wait_for_workers=False, master_listen_fd=listening
            )

        def begin() -> None:
            store = dist.PrefixStore(f"{next(attempts)}", meeting)
            init(start["backend"], store=store, rank=rank, world_size=world, timeout=GROUP_TIMEOUT)

        begin()
        learner.take_over_groups(begin, start["own_group"])
        if start["yield_to_ranks"]:
            _let_gloo_yield()

    def _make_calls(self, functions: dict[str, Any], problems: dict[str, str]) -> int:
        recorder, device = self._recorder, self._device
        ledger = model.Ledger()
        model.begin(lambda seconds, _: time.sleep(seconds), lambda: ledger)
        _say_what_was_printed()
        recorder.message({"event": "loaded", "problems": problems})
        while (call := self._channel.next()) is not None:
            arguments = frames.decode(
                call.header["arguments"], call.blob, lambda told, data: learner.tensor(told, data, device)
            )
            seen = learner.as_the_caller_sees(arguments)
            try:
                returned = learner.called(functions, call.header)(*arguments)
                recorder.close_call()
            except BaseException as error:
                learner.print_traceback(error)
                recorder.message(learner.raised(error, self._start["file"], "call"))
                return _stay(self._channel)
            _say_what_was_printed()
            tree, blob = frames.encode([seen, returned], learner.tensor_bytes)
            recorder.message({"event": "returned", "value": tree, "peak": ledger.peak}, blob)
        return 0


def _say_what_was_printed() -> None:
    """Now: it belongs to the loading, or to one call. The learner may have put something else in stdout's place."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()


def _supervise(start: dict[str, Any], channel: frames.Channel, recorder: Recorder) -> int:
    """This process makes lives of the program, which it does not load itself: calls are of the harness alone, and
    another process has them made, so that lives, which are forks of this one, do not know of them."""
    file = start["file"]
    stage = "compile"
    try:
        code = compile(start["source"], file, "exec", dont_inherit=True)
        stage = "call"
        made = lives.Lives(code, start["source"], file, start["functions"], start["seed"], start["shared_memory"])
        by_name = learner.load_harness(start["harness"], types.ModuleType(program.MODULE))
        problems = made.run(lambda functions: functions.problems).values[0]
        recorder.message({"event": "loaded", "problems": problems})
    except BaseException as error:
        return _tell_and_stay(error, file, stage, channel, recorder)
    names = vars(sys.modules["harness"])
    return lives.directed(made, names, lambda lives: _direct(lives, by_name, file, channel, recorder))


def _direct(made: Any, by_name: dict[str, Any], file: str, channel: frames.Channel, recorder: Recorder) -> int:
    """In a process of its own: make the calls of the harness, with lives to be had."""
    try:
        while (call := channel.next()) is not None:
            arguments = frames.decode(call.header["arguments"], call.blob, learner.tensor)
            seen = learner.as_the_caller_sees(arguments)
            returned = by_name[call.header["by"]](made, *arguments)
            tree, blob = frames.encode([seen, returned], learner.tensor_bytes)
            recorder.message({"event": "returned", "value": tree, "peak": 0}, blob)
    except BaseException as error:
        return _tell_and_stay(error, file, "call", channel, recorder)
    return 0


def _tell_and_stay(error: BaseException, file: str, stage: str, channel: frames.Channel, recorder: Recorder) -> int:
    if isinstance(error, lives.Raised):
        recorder.message(error.event)
    else:
        learner.print_traceback(error)
        recorder.message(learner.raised(error, file, stage))
    return _stay(channel)


def _stay(channel: frames.Channel) -> int:
    """Stay alive after an error, so that the others see silence and not a broken connection."""
    channel.next()
    return 0
