"""What one GPU does: matrix products in four formats, copies, launches, and recomputed activations.

    python course/labs/one_gpu.py [matmul] [copies] [launches] [checkpointing] [fp8] [--save]

Without names it measures all five. Each time is the median of several, on the GPU's own clock where it has one, after a
warm-up. --save keeps the numbers where chapters 01, 07 and 16 look for them. Without a GPU it says so, and ends with 2.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from courselib import gpu, language
from courselib.gpu import Row

FP8_SINCE = (8, 9)  # compute capability: Ada and Hopper
LARGE = language.Shape(blocks=12, width=1024, heads=16, context=1024)


@dataclass(frozen=True)
class Sizes:
    """How much is measured: of an edge of a matrix, of a copy in bytes, of launches in a row, of a language model."""

    edge: int = 8192
    copied: int = 2**28
    launches: int = 1000
    shape: language.Shape = LARGE
    batch: int = 8
    repeats: int = 20


def seconds(device: torch.device, work: Callable[[], object], repeats: int) -> float:
    """The median time of `work`, which may only start things on the device: they are waited for."""
    times = []
    for number in range(repeats + 3):
        if device.type == "cuda":
            since, until = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            since.record()
            work()
            until.record()
            until.synchronize()
            took = since.elapsed_time(until) / 1e3
        else:
            start = time.perf_counter()
            work()
            took = time.perf_counter() - start
        if number >= 3:  # the first ones load kernels and fill caches
            times.append(took)
    return statistics.median(times)


def _drawn(device: torch.device, edge: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    return tuple(torch.randn(edge, edge, generator=draw).to(device) for _ in range(2))  # type: ignore[return-value]


def matmul(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """The same product in float32, in TF32 (float32 with its mantissa cut to 10 bits for the product) and in bf16."""
    a, b = _drawn(device, sizes.edge)
    half, other = a.bfloat16(), b.bfloat16()
    before = torch.backends.cuda.matmul.fp32_precision
    try:
        for name, precision, x, y in (
            ("float32", "ieee", a, b), ("float32, products in TF32", "tf32", a, b), ("bf16", "ieee", half, other)
        ):  # fmt: skip
            torch.backends.cuda.matmul.fp32_precision = precision
            took = seconds(device, partial(torch.mm, x, y), sizes.repeats)
            yield Row(
                "matmul", f"{sizes.edge:,}² times {sizes.edge:,}², {name}", took, 2 * sizes.edge**3 / took, "FLOP/s"
            )
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def copies(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """From the host's memory to the GPU: pageable, pinned, and pinned while the GPU multiplies."""
    pageable, there = (
        torch.ones(sizes.copied, dtype=torch.uint8),
        torch.empty(sizes.copied, dtype=torch.uint8, device=device),
    )
    pinned = pageable.pin_memory()
    a, b = (x.bfloat16() for x in _drawn(device, sizes.edge))
    for name, source in (("pageable", pageable), ("pinned", pinned)):
        took = seconds(device, partial(there.copy_, source, non_blocking=True), sizes.repeats)
        yield Row("copies", f"copy of {sizes.copied / 2**20:,.0f} MiB, {name} memory", took, sizes.copied / took, "B/s")
    side = torch.cuda.Stream(device)

    def both() -> None:
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            there.copy_(pinned, non_blocking=True)
        torch.mm(a, b)
        torch.cuda.current_stream(device).wait_stream(side)

    alone = seconds(device, partial(torch.mm, a, b), sizes.repeats)
    yield Row("copies", "a bf16 product alone", alone)
    yield Row("copies", "the product, and the pinned copy on a stream of its own", seconds(device, both, sizes.repeats))


def launches(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """What it costs to start a kernel that does nearly nothing: one by one, and from a CUDA graph."""
    x = torch.zeros(1, device=device)

    def one_by_one() -> None:
        for _ in range(sizes.launches):
            x.add_(1)

    took = seconds(device, one_by_one, sizes.repeats)
    yield Row(
        "launches",
        f"{sizes.launches:,} additions of one number, each launched",
        took,
        sizes.launches / took,
        "launches/s",
    )
    if device.type == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            one_by_one()
        took = seconds(device, graph.replay, sizes.repeats)
        yield Row("launches", "the same, as one CUDA graph", took, sizes.launches / took, "launches/s")


def checkpointing(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """A step of the course's language model, larger: activations kept, and computed again in the backward pass."""
    model = language.made(sizes.shape).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x, y = (part.to(device) for part in language.batch(0, context=sizes.shape.context))
    x, y = x[: sizes.batch], y[: sizes.batch]

    def forward(again: bool) -> Tensor:
        h = model.embed(x) + model.place(torch.arange(x.shape[1], device=device))
        for block in model.blocks:
            h = checkpoint(block, h, use_reentrant=False) if again else block(h)
        logits: Tensor = model.head(model.norm(h))
        return logits

    def step(again: bool) -> None:
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16):
            loss = language.loss(forward(again), y)
        loss.backward()
        optimizer.step()

    for name, again in (("activations kept", False), ("each block's computed again", True)):
        took = seconds(device, partial(step, again), max(3, sizes.repeats // 4))
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            step(again)
        most = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
        yield Row("checkpointing", f"a step, {name}", took, most, "B at most")


def fp8(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """A product of E4M3 matrices with one scale each, next to bf16; and how far off each is from float32."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < FP8_SINCE:
        yield Row("fp8", "FP8: this GPU has no such products (it needs compute capability 8.9)", 0.0)
        return
    a, b = _drawn(device, sizes.edge)
    exact = a @ b
    half, other = a.bfloat16(), b.bfloat16()
    scales = [448 / x.abs().max() for x in (a, b)]
    left, right = ((x * scale).to(torch.float8_e4m3fn) for x, scale in zip((a, b), scales, strict=True))
    right = right.t().contiguous().t()  # the kernel reads the second matrix by columns
    given: dict[str, Any] = {"scale_a": 1 / scales[0], "scale_b": 1 / scales[1], "out_dtype": torch.bfloat16}
    for name, work in (
        ("bf16", partial(torch.mm, half, other)),
        ("FP8", partial(torch._scaled_mm, left, right, **given)),
    ):
        took, off = seconds(device, work, sizes.repeats), (work().float() - exact).norm() / exact.norm()
        yield Row(
            "fp8",
            f"{sizes.edge:,}² times {sizes.edge:,}², {name}, off by {off:.2%}",
            took,
            2 * sizes.edge**3 / took,
            "FLOP/s",
        )


PARTS: dict[str, Callable[[torch.device, Sizes], Iterator[Row]]] = {
    "matmul": matmul, "copies": copies, "launches": launches, "checkpointing": checkpointing, "fp8": fp8,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="What one GPU does.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--save", action="store_true", help="keep the numbers for the chapters")
    asked = parser.parse_args()
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part is called {unknown[0]}; choose from {', '.join(PARTS)}")
    if not torch.cuda.is_available():
        print(gpu.NO_GPU, file=sys.stderr)
        return 2
    device = torch.device("cuda")
    found = [row for part in asked.parts or PARTS for row in PARTS[part](device, Sizes())]
    kept = gpu.Measured(f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}", tuple(found))
    if asked.save:
        kept.save()
    print(kept.table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
