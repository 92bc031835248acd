"""What is run on ranks and what comes back: Program, Call, Run. Plain data, without torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

from grader.sandbox.folder import Folder
from grader.sandbox.frames import FrameError
from grader.sandbox.limits import BoxLimits
from grader.trace.events import Trace
from grader.verdict import Diagnosis

HOST = "cpu"  # torch's name of the host's memory
Ending = Literal["finished", "deadlocked", "crashed", "left_early", "mismatched", "timed_out", "out_of_memory"]

DTYPES = {
    name: np.dtype(name)
    for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
} | {"complex64": np.dtype("complex64"), "complex128": np.dtype("complex128")}


T = TypeVar("T")


def nested(value: Any, kind: type[T]) -> Iterator[T]:
    """Every `kind` in `value`: itself, or in lists and tuples, however deep."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from nested(part, kind)


@dataclass(frozen=True)
class Strided:
    """A tensor as raw storage and a view on it.

    `storage` is one-dimensional; `shape`, `stride` and `offset` are in elements, as torch.as_strided has them.
    """

    storage: np.ndarray[Any, Any]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> Strided:
        """A contiguous tensor with the values of `array`."""
        flat = np.ascontiguousarray(array).reshape(-1)
        steps = [1]
        for size in reversed(array.shape[1:]):
            steps.append(steps[-1] * max(size, 1))
        return cls(flat, array.shape, tuple(reversed(steps))[: array.ndim] if array.ndim else ())

    def view(self) -> np.ndarray[Any, Any]:
        """The tensor's values, shape `shape`, sharing the storage. Raises FrameError if it would leave it."""
        reach = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.stride, strict=True))
        if 0 in self.shape:
            return np.empty(self.shape, self.storage.dtype)
        if self.offset < 0 or min(self.stride, default=0) < 0 or reach >= len(self.storage):
            raise FrameError("a tensor that leaves its storage")
        size = self.storage.itemsize
        strides = tuple(s * size for s in self.stride)
        return np.ndarray(self.shape, self.storage.dtype, self.storage, self.offset * size, strides)

    @property
    def numel(self) -> int:
        return math.prod(self.shape)


def to_bytes(value: Any) -> tuple[dict[str, Any], bytes] | None:
    """A Strided (or array) as its description and raw bytes, for `frames.encode`."""
    if isinstance(value, np.ndarray):
        value = Strided.of(value)
    if not isinstance(value, Strided):
        return None
    description = {
        "dtype": value.storage.dtype.name,
        "shape": list(value.shape),
        "stride": list(value.stride),
        "offset": value.offset,
    }
    return description, value.storage.tobytes()


def from_bytes(description: dict[str, Any], data: bytes) -> Strided:
    """The inverse of `to_bytes`, for `frames.decode`. The bytes are a learner's: raises FrameError on nonsense."""
    dtype = DTYPES.get(description["dtype"])
    if dtype is None:
        raise FrameError(f"a tensor of dtype {description['dtype']}, which is not supported here: return float32")
    shape, stride, offset = description["shape"], description["stride"], description["offset"]
    if not all(isinstance(n, int) and n >= 0 for n in (*shape, *stride, offset)) or len(shape) != len(stride):
        raise FrameError("a tensor with a bad shape")
    tensor = Strided(np.frombuffer(data, dtype).copy(), tuple(shape), tuple(stride), offset)
    tensor.view()
    return tensor


@dataclass(frozen=True)
class Function:
    """A function that a program must define; with `parameters`, one that can be called with arguments so named."""

    name: str
    parameters: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Place:
    """Where a program of the user's own lies, and what it is given: for one that is run as it is, and not graded.

    `path` is its file's; Python looks for modules in `imports` first. `package` is the package that it is a module of,
    for `python -m` ("" at the top), None for a plain file. `folder` is what its box shows and where it works, None
    where that is nothing.
    """

    path: str
    imports: str
    arguments: tuple[str, ...] = ()
    package: str | None = None
    folder: Folder | None = None


@dataclass(frozen=True)
class Program:
    """A learner's source and the functions in it that are called.

    With `own_group` it may call init_process_group itself, as a program for torchrun does. `harness` is the text of a
    module whose functions calls may go through, and `banned` are dotted names of what must not be used (see `harness`).
    Modules in `imported` are slow to import, and are there before it starts. `apart`: the one rank is a supervisor and
    does not load the program; its harness makes processes that do (see `lives`), and every call is the harness's.
    With `contents` the trace of simulated ranks keeps what each message carries.
    `watched`: each read and write of memory that a request still uses is looked for (see `watch`), and so is a state
    that repeats; that makes every operation slower. `counted`: what the kernel counted on real processes is kept with
    each call. With a `place` it is not graded, and has what torchrun would give it. `flops` (FLOP/s of a rank) makes
    matrix products of simulated ranks take virtual time. `device` is where tensors of real ranks are, and are made
    where nothing else is said: "cuda" gives ranks the GPUs in turn. Simulated ranks have theirs in the host's memory.
    """

    source: str
    file: str
    functions: tuple[Function, ...]
    p2p_only: bool = False
    own_group: bool = False
    harness: str = ""
    banned: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    apart: bool = False
    contents: bool = False
    watched: bool = False
    counted: bool = False
    place: Place | None = None
    flops: float = 0.0
    device: str = HOST

    @classmethod
    def of(
        cls, source: str, file: str, name: str, parameters: tuple[str, ...] | None = None, p2p_only: bool = False
    ) -> Program:
        """A program with one function."""
        return cls(source, file, (Function(name, parameters),), p2p_only)


@dataclass(frozen=True)
class Call:
    """One call on every rank of the function called `function` (the program's first where that is empty):
    `arguments[rank]` are rank's positional arguments. `by` names a function of the harness that is called in its place,
    with the function itself before the arguments."""

    arguments: tuple[tuple[Any, ...], ...]
    function: str = ""
    by: str = ""


BOX = BoxLimits()


@dataclass(frozen=True)
class Limits:
    """What one call may take.

    CPU seconds of one rank, and of one that loads the program; seconds in all; seconds in which nobody computes or
    communicates; seconds in which nobody communicates, whatever they do; bytes on stdout; bytes that all ranks together
    may send to the grading process, as results and as records of what they did. `box` is what the whole run may take of
    the machine.
    """

    cpu_seconds: float = 1.0
    load_cpu_seconds: float = 3.0
    wall_seconds: float = 20.0
    idle_seconds: float = 5.0
    silent_seconds: float = 10.0
    stdout_bytes: int = 2**20
    frame_bytes: int = 2**29
    box: BoxLimits = BOX


@dataclass(frozen=True)
class Said:
    """What each rank printed, and what it wrote to stderr."""

    stdout: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()

    def text(self) -> str:
        """Rank by rank, for people."""
        return "\n".join(_labelled("printed", self.stdout) + _labelled("wrote to stderr", self.stderr))


@dataclass(frozen=True)
class CallResult:
    """What one finished call left: per rank the arguments as they are now and the value returned, and its trace.

    `sent`: what the kernel counted by rank, in bytes with headers; empty unless the program is `counted`, on simulated
    ranks, and where it cannot be told.
    """

    arguments: tuple[tuple[Any, ...], ...]
    returned: tuple[Any, ...]
    trace: Trace
    diagnoses: tuple[Diagnosis, ...] = ()
    finish: tuple[float, ...] = ()  # virtual seconds at which each rank was done; empty on real processes
    peak_bytes: tuple[int, ...] = ()  # the most that each rank had of tensors it gave to track()
    said: Said = field(default=Said(), repr=False)
    sent: tuple[int, ...] = ()


@dataclass(frozen=True)
class Run:
    """One world's life.

    `calls` are those that finished; `trace` is that of the call in which it ended, and `last` what was printed in it
    (or, if none began, while the program was loaded). `cycle` holds the ranks of a deadlock, `marks` a word for each
    rank that broke. `loaded` says whether anything could be called. `unseen` names what communicated on real
    processes without being recorded, and `sent` is what the kernel counted there in the last call, in bytes by rank,
    headers included (empty where it was not asked). `written` is what a program wrote into its
    folder in the box, which is gone. `doubtful`: it ended in a way that may be the machine's doing, too.
    """

    ranks: int
    ending: Ending
    calls: tuple[CallResult, ...]
    trace: Trace
    diagnoses: tuple[Diagnosis, ...] = ()
    stdout: tuple[str, ...] = field(default=(), repr=False)
    stderr: tuple[str, ...] = field(default=(), repr=False)
    cycle: tuple[int, ...] = ()
    marks: tuple[tuple[int, str], ...] = ()
    loaded: bool = True
    last: Said = field(default=Said(), repr=False)
    unseen: str = ""
    sent: tuple[int, ...] = ()
    written: tuple[str, ...] = ()
    doubtful: bool = False

    @property
    def finished(self) -> bool:
        return self.ending == "finished"


def same_for_all(ranks: int, *arguments: Any) -> Call:
    """A call with equal arguments on each of `ranks` ranks."""
    return Call(tuple(tuple(arguments) for _ in range(ranks)))


def outputs_text(run: Run) -> str:
    """What the ranks printed from the beginning to the end, rank by rank, for people."""
    return Said(run.stdout, run.stderr).text()


def _labelled(verb: str, texts: Sequence[str]) -> list[str]:
    names = ["your code"] if len(texts) == 1 else [f"rank {rank}" for rank in range(len(texts))]
    return [f"{name} {verb}:\n{text.rstrip()}" for name, text in zip(names, texts, strict=True) if text.strip()]
