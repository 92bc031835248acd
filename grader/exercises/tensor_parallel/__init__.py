"""Tensor parallelism of two linear layers (Shoeybi et al. 2019, Megatron-LM, section 3): split by columns, then by rows.

The block needs one all-reduce forward (their g) and one backward (their f).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader import says, tally
from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.tensor_parallel import blocks as unsplit
from grader.exercises.tensor_parallel.blocks import Array, Linear, Right
from grader.lost import Lost
from grader.ranks.program import CallResult, Function, Strided
from grader.verdict import Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench, Ranks

IN, HIDDEN, OUT = 5, 12, 7  # 12 is divisible by every number of ranks here, and no two shapes are alike
WORLDS = (1, 2, 3, 4)
SLACK = 1.1  # of the slices' bytes: all of them may lie in one row
COLUMN, ROW, BLOCK = "ColumnParallelLinear", "RowParallelLinear", "ParallelMLP"


@dataclass(frozen=True)
class Wanted:
    """What a case must come to: the unsplit result, how it is split, and the bytes that each pass may all-reduce."""

    right: Right
    split: str  # "column", "row" or "block"
    parameters: tuple[Array, ...]  # unsplit, None-free
    reduced: tuple[int, ...]  # of forward and backward
    beside: Array | None = None  # what another use of the input adds to its gradient


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check."""
    for n in WORLDS:
        yield _layer(draw, "column", n, bias=True, leading=(6,))
        yield _layer(draw, "column", n, bias=False, leading=(2, 3))
        yield _layer(draw, "row", n, bias=True, leading=(6,))
        yield _layer(draw, "row", n, bias=False, leading=(2, 3))
        if n == 2:
            yield _layer(draw, "column", n, bias=True, leading=())
            yield _layer(draw, "row", n, bias=True, leading=())
        for activation, leading in (("gelu", (6,)), ("a leaky ReLU", (2, 3)), ("tanh", (6,))):
            yield _block(draw, "block", n, activation, backward=True, leading=leading)
        yield _block(draw, "forward", n, "gelu", backward=False)
    yield _block(draw, "block", 3, "gelu", backward=True, residual=True)
    yield _block(draw, "real", 4, "gelu", backward=True, engine="gloo", dtype="float32", leading=(4, 16))


def _drawn(draw: Draw, label: str, *shape: int, dtype: str = "float64") -> Array:
    return np.asarray(draw.generator(label).standard_normal(shape), dtype)


def _input(*shape: int) -> str:
    return f"input of shape {shape}"


def _layer(draw: Draw, split: str, n: int, bias: bool, leading: tuple[int, ...]) -> Case:
    function, wide = (COLUMN, (HIDDEN, IN)) if split == "column" else (ROW, (OUT, HIDDEN))
    features = wide[1] if split == "column" else wide[1] // n
    label = f"{function} on {n} rank{'s' * (n > 1)}, {'with' if bias else 'without'} bias, {_input(*leading, features)}"
    layer = Linear(_drawn(draw, label + "w", *wide), _drawn(draw, label + "b", wide[0]) if bias else None)
    x, grad = _drawn(draw, label + "x", *leading, wide[1]), _drawn(draw, label + "g", *leading, wide[0])
    right = unsplit.linear(layer, x, grad)
    columns = split == "column"
    xs, grads = ([x] * n, np.split(grad, n, -1)) if columns else (np.split(x, n, -1), [grad] * n)
    weight, offset = Strided.of(layer.weight), None if layer.bias is None else Strided.of(layer.bias)
    given = tuple((weight, offset, Strided.of(part), Strided.of(wish)) for part, wish in zip(xs, grads, strict=True))
    reduced = (0, x.nbytes) if columns else (grad.nbytes, 0)
    parameters = (layer.weight,) if layer.bias is None else (layer.weight, layer.bias)
    return Case(split, label, given, function, by="layer", expected=Wanted(right, split, parameters, reduced))


def _block(
    draw: Draw, group: str, n: int, activation: str, backward: bool, engine: str = "sim", dtype: str = "float64",
    leading: tuple[int, ...] = (6,), residual: bool = False,
) -> Case:  # fmt: skip
    label = f"ParallelMLP with {activation} on {n} rank{'s' * (n > 1)}, {dtype}{'' if backward else ', forward only'}"
    if leading != (6,):
        label += f", {_input(*leading, IN)}"
    if residual:
        label += ", whose input is used next to the block as well"
    shapes = ((HIDDEN, IN), (HIDDEN,), (OUT, HIDDEN), (OUT,))
    w1, b1, w2, b2 = (_drawn(draw, f"{label}{k}", *shape, dtype=dtype) for k, shape in enumerate(shapes))
    x, grad = (_drawn(draw, f"{label}{k}", *leading, size, dtype=dtype) for k, size in (("x", IN), ("g", OUT)))
    beside = _drawn(draw, label + "beside", *leading, IN, dtype=dtype) if residual else None
    right = unsplit.mlp(Linear(w1, b1), activation, Linear(w2, b2), x, grad)
    given = (activation, *map(Strided.of, (w1, b1, w2, b2, x)), Strided.of(grad) if backward else None)
    given = (*given, None if beside is None else Strided.of(beside))
    wanted = Wanted(right, "block", (w1, b1, w2, b2), (grad.nbytes, x.nbytes if backward else 0), beside)
    label += f", {_input(*leading, IN)}" * (leading == (6,))  # not before: it would draw other numbers
    return Case(group, label, (given,) * n, BLOCK, engine, by="mlp", expected=wanted)


# ---- what each rank must hold


def _mine(whole: Array, split: str, which: int, rank: int, n: int) -> Array:
    """A rank's part of a parameter or its gradient: `which` is its place in (weight, bias, weight, bias)."""
    by_columns = split == "column" or (split == "block" and which < 2)
    if by_columns:
        return np.split(whole, n, 0)[rank]
    return np.split(whole, n, 1)[rank] if whole.ndim == 2 else whole


def _alike(got: Array, right: Array) -> bool:
    """Whether these are the same numbers, but for rounding in some dtype."""
    return got.shape == right.shape and got.dtype.kind == "f" and np.allclose(got, right, rtol=2e-4, atol=2e-4)


def _close(got: Array | None, right: Array) -> bool:
    if got is None or got.shape != right.shape or got.dtype.kind != "f":
        return False
    tolerance = 1e-9 if got.dtype == np.float64 else 2e-4
    return bool(np.allclose(got, right, rtol=tolerance, atol=tolerance))


def _said(got: Array | None, right: Array) -> tuple[str, str]:
    """What was expected and what came, short."""
    if got is None or got.shape != right.shape:
        return f"shape {right.shape}", "no tensor" if got is None else f"shape {got.shape}"
    at = np.unravel_index(int(np.argmax(np.abs(got - right))), right.shape) if right.size else ()
    return f"{right[at]:.6g} at {tuple(map(int, at))}", f"{got[at]:.6g}"


class _Judge:
    """One finished call of a case, rank by rank."""

    def __init__(self, bench: RankBench, case: Case, result: CallResult) -> None:
        self.bench, self.case, self.result, self.n = bench, case, result, case.ranks
        self.wanted: Wanted = case.expected
        for rank, found in enumerate(result.returned):
            if not isinstance(found, dict):
                raise self.lost("wrong_result", f"the grader has no result from rank {rank}", rank)
        self.found: list[dict[str, Any]] = [found for found in result.returned if isinstance(found, dict)]

    def lost(self, kind: Kind, what: str, rank: int | None = None, expected: str = "", got: str = "") -> Exception:
        return self.bench.lost(self.case, kind, f"With {self.case.label}: {what}.", rank, expected, got)

    def output(self) -> None:
        """The forward pass."""
        whole = self.wanted.right.output
        for rank, found in enumerate(self.found):
            right = np.split(whole, self.n, -1)[rank] if self.wanted.split == "column" else whole
            got = checks.array(found.get("output"))
            if got is not None and got.dtype != (mine := self.wanted.parameters[0].dtype) and _alike(got, right):
                told = f"It is {got.dtype}, but the layer and its input are {mine}. Compute and add up in the dtype of the input"
                raise self.lost(
                    "wrong_result", f"the output of rank {rank} is wrong. {told}", rank, str(mine), str(got.dtype)
                )
            if not _close(got, right):
                told = self._output_habit(got, right, rank)
                raise self.lost("wrong_result", f"the output of rank {rank} is wrong. {told}", rank, *_said(got, right))

    def _output_habit(self, got: Array | None, right: Array, rank: int) -> str:
        if got is None or got.shape != right.shape:
            if got is not None and self.wanted.split == "column" and got.shape == self.wanted.right.output.shape:
                return "It has all features. From a column-parallel layer, return only the rank's own slice of them"
            came = "no tensor" if got is None else f"a tensor of shape {got.shape}"
            return f"It is {came} instead of a tensor of shape {right.shape}"
        bias = self.wanted.parameters[-1] if len(self.wanted.parameters) > 1 else None
        if bias is not None and bias.shape == right.shape[-1:]:
            if _close(got, right - bias):
                return "The last bias is missing. Add it once"
            if self.n > 1 and _close(got, right + (self.n - 1) * bias):
                return f"The bias is added {self.n} times. Add it once, after the all-reduce"
            if self.n > 1 and _close((got - bias) * self.n, right - bias):
                return f"The sum over the ranks is divided by {self.n}. Add up partial sums without averaging them"
        if self.n > 1 and self.wanted.split != "column":
            others = [checks.array(found.get("output")) for found in self.found]
            if any(other is not None and other.shape == got.shape and not np.allclose(other, got) for other in others):
                return "The ranks' outputs differ. All-reduce the partial sums of all ranks"
        return (
            _inexact(got, right)
            or "It is not the output of the unsplit layer. Check which slices of the weights this rank uses"
        )

    def grads(self) -> None:
        """The backward pass: of the input and of every parameter."""
        for rank, found in enumerate(self.found):
            self._input_grad(rank, checks.array(found.get("input_grad")))
            mine = list(zip(found.get("parameters", ()), found.get("grads", ()), strict=False))
            names = ("weight", "bias", "second weight", "second bias")
            wholes = [grad for pair in self.wanted.right.grads for grad in pair]
            for which, parameter in enumerate(self.wanted.parameters):
                both = (parameter, wholes[which])
                value, right = (_mine(whole, self.wanted.split, which, rank, self.n) for whole in both)
                held = [grad for kept, grad in mine if _close(checks.array(kept), value)]
                if not held:
                    shapes = ", ".join(str(kept.shape) for kept, _ in mine if isinstance(kept, Strided))
                    part = f"its slice of the {names[which]}, of shape {value.shape}"
                    what = f"rank {rank} has no parameter that equals {part}. Make that slice an nn.Parameter"
                    raise self.lost("wrong_result", what, rank, f"shape {value.shape}", shapes or "no parameters")
                got = next((grad for grad in map(checks.array, held) if _close(grad, right)), checks.array(held[0]))
                if not _close(got, right):
                    told = _grad_habit(got, right, self.n)
                    what = f"on rank {rank}, the gradient of the {names[which]} is wrong. {told}"
                    raise self.lost("wrong_result", what, rank, *_said(got, right))

    def no_bias_made_up(self) -> None:
        """A layer without a bias has none to train."""
        for rank, found in enumerate(self.found):
            kept = [one for one in found.get("parameters", ()) if isinstance(one, Strided) and one.numel]
            if len(self.wanted.parameters) == 1 and len(kept) > 1:
                shapes = " and ".join(str(one.shape) for one in kept)
                what = f"rank {rank} has parameters of shapes {shapes}. Where bias is None, keep the weight only"
                raise self.lost("wrong_result", what, rank, "one parameter", f"{len(kept)}")

    def _input_grad(self, rank: int, got: Array | None) -> None:
        whole = self.wanted.right.input_grad
        beside = 0 if self.wanted.beside is None else self.wanted.beside
        right = np.split(whole, self.n, -1)[rank] if self.wanted.split == "row" else whole + beside
        if _close(got, right):
            return
        told = _grad_habit(got, right, self.n)
        summed = self.n > 1 and self.wanted.split != "row"
        if _close(got, whole + self.n * beside):
            told = (
                "What the input's other use adds to it was summed over the ranks, too. Sum only the gradient that comes "
                "back through this block"
            )
        if summed and _close(got, self.wanted.right.partial_input_grad(rank, self.n) + beside):
            told = "It is only this rank's own part of the sum. All-reduce it in the backward pass"
        what = f"on rank {rank}, the gradient of the input is wrong. {told}"
        raise self.lost("wrong_result", what, rank, *_said(got, right))

    def traffic(self) -> None:
        """One all-reduce a pass, and no more bytes than it takes."""
        trace, n = self.result.trace, self.n
        if n == 1:
            return
        passes = sum(size > 0 for size in self.wanted.reduced)
        most = sum(2 * (n - 1) * -(-size // n) for size in self.wanted.reduced)
        least = sum((n - 1) * size // n for size in self.wanted.reduced)
        for rank in range(n):
            called = [op for op in trace.operations(rank) if op.collective and op.name != "new_group"]
            calls = [op.name for op in called]
            gathers = [checks.sent_by(op, range(n)) for op in called if op.name.startswith("all_gather")]
            sent = trace.bytes_sent(rank)
            tally.note("bytes a rank sends", sent, most + 64, "bytes", where=self.case.label, reference=most,
                       of=says.counted(passes, "all-reduce"))  # fmt: skip
            if sent < least:
                what = f"rank {rank} sent only {sent:,} bytes. All-reduce its partial sums, at least {least:,} bytes"
                raise self.lost("too_few_bytes", what, rank, f"at least {least:,} bytes", f"{sent:,} bytes")
            if sent > most + 64:
                need = "One all-reduce" if passes == 1 else f"{passes} all-reduces"
                what = (
                    f"rank {rank} sent {sent:,} bytes in {', '.join(calls) or 'messages'}. "
                    f"{need} of the partial sums {'takes' if passes == 1 else 'take'} {most:,} bytes. "
                    f"{self._less(gathers)}"
                )
                raise self.lost("too_many_bytes", what, rank, f"at most {most:,} bytes", f"{sent:,} bytes")
            if len(calls) > passes:
                wheres = "forward (of the output)", "backward (of the input's gradient)"
                needed = zip(self.wanted.reduced, wheres, strict=True)
                what = (
                    f"rank {rank} made {len(calls)} collective calls ({', '.join(calls)}). Make only "
                    f"{' and '.join(f'one {where}' for size, where in needed if size)}"
                )
                raise self.lost("too_many_messages", what, rank, f"{passes} all-reduces", f"{len(calls)} collectives")

    def _less(self, gathers: list[int]) -> str:
        """What to do about too many bytes, of which these were sent in gathers."""
        if not gathers or self.wanted.split != "block":
            return "Send nothing else"
        if any(size and gathered == (self.n - 1) * size for size in self.wanted.reduced for gathered in gathers):
            return "A gather of all partial sums sends more: add them up with dist.all_reduce"
        return "Gather nothing between the two layers: the second needs only this rank's slices of the first"

    def memory(self) -> None:
        """Each rank holds its slices, and no more."""
        for rank, found in enumerate(self.found):
            mine = [_mine(p, self.wanted.split, k, rank, self.n).size for k, p in enumerate(self.wanted.parameters)]
            held = sum(kept.numel for kept in found.get("parameters", ()) if isinstance(kept, Strided))
            whole, right = sum(p.size for p in self.wanted.parameters), sum(mine)
            if held != right:
                what = (
                    f"rank {rank} holds {held} elements as parameters ({100 * held / whole:.0f} % of the unsplit "
                    f"{whole}). Its slices are {right} elements ({100 * right / whole:.0f} %): keep exactly these"
                )
                if held == right + whole:  # as many as if the unsplit layer were kept beside them
                    what += ". A module or a parameter that is assigned to an attribute of self is a parameter of the layer, too"
                kind: Kind = "too_much_memory" if held > right else "wrong_result"
                raise self.lost(kind, what, rank, f"{right} elements", f"{held} elements")
            alive, needed = checks.amount(self.result, rank, "bytes"), right * self.wanted.parameters[0].itemsize
            tally.note("parameters on a rank", alive, SLACK * needed, "bytes", where=self.case.label,
                       reference=whole * self.wanted.parameters[0].itemsize, of="the unsplit layer")  # fmt: skip
            if alive > SLACK * needed:
                what = (
                    f"rank {rank}'s parameters keep {alive:,.0f} bytes of memory alive. Its slices are {needed:,} bytes. A view "
                    "of a tensor keeps all of that tensor's memory alive, and contiguous() copies only where it has to: "
                    "clone() each slice"
                )
                raise self.lost("too_much_memory", what, rank, f"{needed:,} bytes", f"{alive:,.0f} bytes")


def _grad_habit(got: Array | None, right: Array, n: int) -> str:
    if got is None:
        return "There is none. Return an output of the right shape, and detach no tensor from the graph on the way"
    if got.shape != right.shape:
        return f"Its shape is {got.shape} instead of {right.shape}"
    if not got.any():
        return (
            "It is 0 everywhere, so this rank's own copy or slice has no effect on its output. Use it on every rank in the "
            "same way"
        )
    if n > 1 and _close(got, right * n):
        return f"It is {n} times too large. Do not sum it over ranks that all have the same gradient"
    if n > 1 and _close(got * n, right):
        return f"It is {n} times too small. Divide neither a value nor its gradient by the number of ranks"
    return (
        _inexact(got, right)
        or "It is not the gradient of the unsplit layer. Check the slices, the sum of the backward pass, and the activation"
    )


def _inexact(got: Array, right: Array) -> str:
    """What is wrong with a float64 result that is right in float32; empty if it is not."""
    if right.dtype != np.float64 or not np.allclose(got, right, rtol=1e-5, atol=1e-5):
        return ""
    off = np.max(np.abs(got - right))
    return f"It is off by at most {off:.1g}, too much for float64. Compute and add up in the dtype of the input"


def _judged(group: str, *parts: Callable[[_Judge], None]) -> Callable[[RankBench], Outcome]:
    def judge(bench: RankBench) -> Outcome:
        for case, result in bench.calls(group):
            found = checks.forbidden(result)
            if found:
                raise bench.lost(case, found.kind, found.message, found.rank)
            judged = _Judge(bench, case, result)
            checks.undisturbed(bench, case, result)
            for part in parts:
                part(judged)
        return bench.picture(group)

    return judge


def _communication(bench: RankBench) -> Outcome:
    _judged("forward", _Judge.traffic)(bench)
    _judged("block", _Judge.traffic)(bench)
    for group in ("column", "row"):  # what does not finish there, costs the points of that check
        finished: list[tuple[Case, CallResult]] = []
        with contextlib.suppress(Lost):
            finished.extend(bench.calls(group))
        for case, result in finished:
            _Judge(bench, case, result).traffic()
    return bench.picture("block")


PARTS = _Judge.output, _Judge.grads, _Judge.no_bias_made_up  # of a layer

EXERCISE = Exercise(
    name="tensor_parallel",
    chapter="08",
    title="Tensor parallelism: a block split by columns, then by rows",
    minutes=50,
    difficulty=2,
    world=Ranks(
        (Function(COLUMN), Function(ROW), Function(BLOCK)),
        cases,
        limits=checks.TRAINING,
        imported=("torch._dynamo",),  # functional collectives do so when they are first called
    ),
    checks=(
        Check("column", "A column-parallel layer, forward and backward", 4, _judged("column", *PARTS)),
        Check("row", "A row-parallel layer, its bias added once", 4, _judged("row", *PARTS)),
        Check("output", "The block gives what the unsplit one gives", 3, _judged("forward", _Judge.output)),
        Check("gradients", "All gradients are those of the unsplit block", 4, _judged("block", _Judge.grads)),
        Check("communication", "One all-reduce forward, one backward", 4, _communication),
        Check("memory", "Each rank holds a 1/N of the weights", 3, _judged("block", _Judge.memory)),
        Check("real", "The block in float32 on 4 real processes", 2, _judged("real", _Judge.output, _Judge.grads)),
    ),
)
