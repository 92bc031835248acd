"""The learner's code in a rank, real or simulated: its functions, the exercise's harness, tensors, what it raises.

A function that takes a model or an optimizer cannot be called with data alone: the exercise's harness, a module of its
own given as text, makes them there. What it returns is what the ranks say, like any result; it decides nothing.
"""

from __future__ import annotations

import errno
import functools
import importlib
import inspect
import os
import random
import socket
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from grader.ranks.endless import Endless
from grader.ranks.program import HOST
from grader.ranks.recorder import ForbiddenCall
from grader.sandbox import program

HARNESS = "<harness>"
MOST_TEXT = 2000  # characters of what is told of an error
_LIMITS = {
    errno.ENOSPC: "disk", errno.EDQUOT: "disk", errno.EFBIG: "file", errno.EMFILE: "files", errno.ENFILE: "files",
    errno.EPERM: "denied", errno.EACCES: "denied", errno.EROFS: "denied",
}  # fmt: skip

_forbid: Callable[[str], None] = lambda name: None  # noqa: E731 - of the world that runs now


# ---- values


def tensor(description: dict[str, Any], data: bytes, device: torch.device | str = HOST) -> torch.Tensor:
    """A tensor of this storage, with its gaps, wherever it is to be: to(device) would close them."""
    dtype = getattr(torch, description["dtype"])
    storage = torch.empty(0, dtype=dtype, device=HOST)
    if data:
        storage = torch.frombuffer(bytearray(data), dtype=dtype)
    return torch.as_strided(storage.to(device), description["shape"], description["stride"], description["offset"])


def tensor_bytes(value: Any) -> tuple[dict[str, Any], bytes] | None:
    """A tensor's whole storage, and the view on it. A number of numpy's goes as a tensor without dimensions."""
    if type(value).__module__ == "numpy" and hasattr(value, "item") and not getattr(value, "shape", ()):
        value = torch.tensor(value.item(), device=HOST)
    if not isinstance(value, torch.Tensor):
        return None
    tensor = value.detach()
    raw = torch.empty(0, dtype=torch.uint8, device=HOST).set_(tensor.untyped_storage().cpu())  # cpu(): itself, if there
    whole = raw.numel() - raw.numel() % tensor.element_size()
    description = {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "offset": tensor.storage_offset(),
    }
    return description, raw[:whole].numpy().tobytes()


def as_the_caller_sees(arguments: list[Any]) -> list[Any]:
    """The arguments as aliases of their memory: assigning to `tensor.data` changes the learner's handle, not these."""
    return [value.detach() if isinstance(value, torch.Tensor) else value for value in arguments]


def seed(number: int) -> None:
    """Begin torch's and Python's random numbers anew. torch.manual_seed() also notes for every kind of accelerator,
    with a stack trace each, what to do once there is one: that takes milliseconds."""
    torch.default_generator.manual_seed(number)
    random.seed(number)


# ---- functions


@functools.lru_cache(maxsize=8)
def compiled(source: str, file: str) -> types.CodeType:
    """A program's code, one for all simulated ranks of a process. Raises what compile() raises."""
    return compile(source, file, "exec", dont_inherit=True)


def find_functions(
    module: types.ModuleType, wanted: list[tuple[str, list[str] | None]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """By name, the functions that can be called, and why the others cannot."""
    functions, problems = {}, {}
    for name, parameters in wanted:
        functions[name], problem = _find_function(module, name, parameters)
        if problem:
            problems[name] = problem
    return functions, problems


def _find_function(module: types.ModuleType, name: str, parameters: list[str] | None) -> tuple[Any, str]:
    """The function to call, and why it cannot be called: what is said of the file ("" if it can)."""
    function = getattr(module, name, None)
    if function is None:
        return None, f"does not define {name}"
    if not callable(function):
        return None, f"defines {name} as a value of type {type(function).__name__}, which cannot be called"
    if parameters is not None:
        try:
            inspect.signature(function).bind(*parameters)
        except TypeError:
            return None, f"defines {name} so that it cannot be called as {name}({', '.join(parameters)})"
        except ValueError:
            pass
    return function, ""


def load(code: types.CodeType, start: dict[str, Any]) -> tuple[types.ModuleType, dict[str, Any], dict[str, str]]:
    """The program of the world that `start` tells of, its functions by name, and why some cannot be called."""
    place, source, file = start["place"], start["source"], start["file"]
    if place is not None and start["functions"][0][0] == program.MAIN:
        run = program.as_main(code, source, file, place["path"], place["package"])
        return types.ModuleType(program.MODULE), {program.MAIN: run, "$harness": {}}, {}
    module = program.load(code, source, file)
    functions, problems = find_functions(module, start["functions"])
    functions["$harness"] = load_harness(start["harness"], module)
    return module, functions, problems


def load_harness(text: str, submission: types.ModuleType) -> dict[str, Any]:
    """The functions of a harness, by name; `submission` is the learner's module, for them to look into."""
    module = program.module(text, HARNESS, "harness")
    module.__dict__["submission"] = submission
    exec(compiled(text, HARNESS), module.__dict__)
    return {name: value for name, value in vars(module).items() if isinstance(value, types.FunctionType)}


def called(functions: dict[str, Any], header: dict[str, Any]) -> Callable[..., Any]:
    """The function that a call names: the learner's, or the harness's that is given the learner's first."""
    theirs = functions[header["function"]]
    if not header["by"]:
        return theirs  # type: ignore[no-any-return]
    by = functions["$harness"][header["by"]]
    return lambda *arguments: by(theirs, *arguments)


# ---- what torchrun gives a program


def settle_in(start: dict[str, Any], store_port: int, tell: Callable[[dict[str, Any]], None]) -> None:
    """Have the arguments, module path and environment of a program that is run as it is, where this is one.

    `store_port` is that of the store by which real ranks met, 0 where there is none. `tell` is told where the program
    starts ranks of its own.
    """
    world, place = str(start["world"]), start["place"]
    os.environ.update(WORLD_SIZE=world, LOCAL_WORLD_SIZE=world)
    if place is None:
        return
    os.environ.update(
        GROUP_RANK="0", GROUP_WORLD_SIZE="1", ROLE_NAME="default", ROLE_WORLD_SIZE=world,
        MASTER_ADDR="localhost", MASTER_PORT=str(store_port or _free_port()), TORCHELASTIC_RUN_ID="none",
        TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_MAX_RESTARTS="0",
        TORCHELASTIC_USE_AGENT_STORE=str(store_port != 0),
    )  # fmt: skip
    sys.argv[:] = [place["path"], *place["arguments"]]
    sys.path.insert(0, place["imports"])
    spawn = importlib.import_module("torch.multiprocessing.spawn")
    begin = spawn.start_processes

    def start_processes(*args: Any, **kwargs: Any) -> Any:
        tell({"event": "unseen", "what": "processes that the program started itself"})
        return begin(*args, **kwargs)

    spawn.start_processes = start_processes  # type: ignore[attr-defined]


def be_rank(rank: int) -> None:
    """Have the environment of this rank."""
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = os.environ["ROLE_RANK"] = str(rank)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


# ---- what is not theirs


def ban(names: Sequence[str], forbid: Callable[[str], None]) -> None:
    """Have `forbid` called, with its name, where one of these classes is instantiated or functions called.

    Names are dotted ("torch.nn.parallel.DistributedDataParallel"). `forbid` is to raise.
    """
    global _forbid
    _forbid = forbid
    for dotted in names:
        where, _, name = dotted.rpartition(".")
        found = getattr(importlib.import_module(where), name)
        refuse = _refusal(name)
        if isinstance(found, type):
            found.__init__ = refuse  # type: ignore[misc]
            continue
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is found:
                setattr(module, name, refuse)


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        _forbid(name)
        raise AssertionError("a forbidden call goes on")

    return refuse


def take_over_groups(begin: Callable[[], None], own_group: bool) -> None:
    """Let a program's own init_process_group() do what it would under torchrun.

    The group is there when the program begins. With `own_group` making it is then taken as done; else it is an error,
    as torch has it. After a destroy_process_group(), `begin` makes it anew.
    """

    def init_process_group(*_: Any, **__: Any) -> None:
        if not dist.is_initialized():
            begin()
        elif not own_group:
            raise ValueError("trying to initialize the default process group twice!")

    dist.init_process_group = c10d.init_process_group = init_process_group


# ---- errors


def raised(error: BaseException, file: str, stage: str) -> dict[str, Any]:
    """As `program.raised`, and `why`: what an error says of the box, of the exercise's rules, or of a peer's end."""
    text = program.text_of(error)
    why = _limit(error, text)
    if "Connection closed by peer" in text or "Connection reset by peer" in text:
        why = "peer"
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        why = "memory"
    if stage == "compile":  # also ValueError and RecursionError: null bytes, nesting too deep
        why = "syntax"
    if isinstance(error, ForbiddenCall):
        why = "forbidden"
    note = vars(error).get("in_call", "")  # a harness sets it
    note = note[:MOST_TEXT] if type(note) is str else ""
    return {**program.raised(error, file, stage), "text": text.strip()[:MOST_TEXT], "why": why, "note": note}


def _limit(error: BaseException, text: str) -> str:
    """The limit of the box that an error of the operating system tells of; "" for other errors."""
    if isinstance(error, OSError):
        forked = error.errno == errno.EAGAIN and error.filename is None
        return "processes" if forked else _LIMITS.get(error.errno or 0, "")
    return "processes" if isinstance(error, RuntimeError) and "can't start new thread" in text else ""


def print_traceback(error: BaseException) -> None:
    """The traceback on stderr as Python would print it, from the learner's code on and without frames of ours."""
    if isinstance(error, (ForbiddenCall, Endless)):
        return
    told = traceback.TracebackException.from_exception(error)
    _hide_ours(told)
    print("".join(told.format()), end="", file=sys.stderr, flush=True)


def _hide_ours(told: traceback.TracebackException) -> None:
    """Take frames of ours out of a traceback, and out of those it came from."""
    ours = os.path.dirname(os.path.dirname(__file__))
    left = [entry for entry in told.stack if not entry.filename.startswith((ours, HARNESS))]
    told.stack = traceback.StackSummary.from_list(left)
    for earlier in (told.__cause__, told.__context__):
        if earlier is not None:
            _hide_ours(earlier)
