"""The cases of quantized_all_reduce: float32 in every layout, with blocks that ask much of a scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from grader import says
from grader.exercise import Draw
from grader.exercises.quantized_all_reduce.float8 import Array, Job
from grader.ranks.program import Strided
from grader.worlds.cases import Case

Values = Callable[[np.random.Generator, int, int, int], Array]  # of a rank, given the length and the block
Layout = Callable[[Array], Strided]
UNEQUAL = 448.0, 256.0, 15.9  # the two on one rank, the third on all others: see `unequal`
LEAST, MOST = 1e-30, 1e30


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check."""
    yield from _error(draw)
    for engine in ("sim", "gloo"):
        yield case(draw, "accuracy", 8, 12_288, 64, engine=engine)
    yield case(draw, "unequal", 8, 1024, 64, _unequal, "one rank has 448 and 256 where seven have 0 and 15.9")
    for ranks, length, block in ((3, 200, 32), (4, 512, 32), (8, 700, 16)):
        yield case(draw, "agreement", ranks, length, block)
    yield from _zeros(draw)
    # also of a block a rank: one round, in which each rank sends all its codes to all others, takes too many bytes
    for ranks, length, block in ((2, 8192, 64), (3, 11_520, 64), (4, 32_768, 128), (8, 65_536, 64), (8, 1024, 128)):
        yield case(draw, "bytes", ranks, length, block)
    yield case(draw, "bytes", 3, 11_520, 64, engine="gloo")
    yield from _shapes(draw)
    for length, block in ((96, 16), (7, 4)):
        yield case(draw, "alone", 1, length, block)
    yield case(draw, "alone", 1, 40, 8, layout=every_third, what="x[::3]")
    yield case(draw, "real", 2, 96, 16, engine="gloo")
    yield case(draw, "real", 3, 100_000, 128, engine="gloo", layout=every_third, what="x[::3]")


def _error(draw: Draw) -> Iterator[Case]:
    yield case(draw, "error", 2, 384, 16, _negative, "half of the blocks negative")
    for ranks, length, block in ((2, 256, 32), (3, 480, 16), (4, 1024, 64), (8, 2048, 64)):
        yield case(draw, "error", ranks, length, block)
    yield case(draw, "error", 4, 1536, 32, _magnitudes, "blocks of very different magnitudes")
    yield case(draw, "error", 2, 768, 32, _range, "magnitudes from 1e-30 to 1e30")
    yield case(draw, "error", 3, 480, 16, _halfway, "values between two codes of float8_e5m2")
    yield case(draw, "error", 4, 512, 32, _loud, "one rank's values 1000 times as large")


def _zeros(draw: Draw) -> Iterator[Case]:
    yield case(draw, "zeros", 4, 256, 16, _nothing, "all zero")
    yield case(draw, "zeros", 2, 256, 16, _blank(0), "half of the blocks zero")
    yield case(draw, "zeros", 3, 192, 16, _blank(1), "half of the blocks zero on rank 1 alone")
    yield case(draw, "zeros", 3, 192, 16, _nothing_on_rank_1, "all zero on rank 1 alone")
    yield case(draw, "zeros", 4, 512, 32, _sparse, "two of three elements zero on all ranks")
    yield case(draw, "zeros", 2, 128, 16, _opposite, "values that cancel out")


def _shapes(draw: Draw) -> Iterator[Case]:
    for ranks in (2, 3, 5):  # from short to long, so that what is kept of a call is not long enough by luck
        for length in (0, 1, ranks - 1, 16 * ranks + 1, 100):
            yield case(draw, "shapes", ranks, length, 16)
    # what stood in a buffer's padding, or what is far away, must not count for the scale of the last block
    yield case(draw, "shapes", 2, 128, 16, _huge, "large values")
    yield case(draw, "shapes", 2, 118, 16, _plain, "small values")
    yield case(draw, "shapes", 2, 266, 16, _huge_first, "large values before small ones")
    yield case(draw, "shapes", 4, 60, 16, _huge_block, "one block of large values before small ones")
    yield case(draw, "shapes", 4, 10, 1000)
    yield case(draw, "shapes", 4, 40, 1)
    yield case(draw, "shapes", 3, 60, 8, layout=every_third, what="x[::3]")
    yield case(draw, "shapes", 2, 120, 7, layout=_matrix, what="a matrix")
    yield case(draw, "shapes", 2, 120, 16, layout=_transposed, what="a transposed matrix")
    yield case(draw, "shapes", 3, 1, 4, layout=lambda values: Strided.of(values.reshape(())), what="0-dimensional")


def case(
    draw: Draw, group: str, ranks: int, length: int, block: int, values: Values | None = None, what: str = "",
    layout: Layout = Strided.of, engine: str = "sim",
) -> Case:  # fmt: skip
    """A case with `length` elements on each rank: standard normal ones, or those of `values`."""
    named = says.counted(ranks, "rank") if engine == "sim" else f"{ranks} real processes"
    label = f"{named}, {says.counted(length, 'element')} in blocks of {block}"
    label += f", {what}" if what else ""
    tensors = []
    for rank in range(ranks):
        generator = draw.generator(f"{group} {label} {rank}")
        made = values(generator, rank, length, block) if values else _normal(generator, length)
        tensors.append(layout(made.astype(np.float32)))
    arguments = tuple((tensor, block) for tensor in tensors)
    job = Job(tuple(tensor.view().astype(np.float64).reshape(-1) for tensor in tensors), block)
    return Case(group, label, arguments, engine=engine, expected=job)


# ---- values


def _normal(generator: np.random.Generator, length: int) -> Array:
    """Standard normal numbers, none smaller than elements can be."""
    drawn = generator.normal(size=length)
    return np.asarray(np.where(np.abs(drawn) < 1e-6, 1e-6, drawn))


def _by_block(length: int, block: int) -> Array:
    """Of each element 0, 1, 2, ...: three blocks in a row have the same number. One block would be too few: what an
    element may be off by also depends on its neighbors."""
    return np.asarray(np.arange(length) // (3 * block))


def _magnitudes(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    """Blocks of a millionth of the magnitude of others."""
    return np.asarray(_normal(generator, length) * 10.0 ** np.array([0, 3, -3, 6])[_by_block(length, block) % 4])


def _range(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    drawn = generator.uniform(1, 2, length) * generator.choice((-1, 1), length)
    return np.asarray(np.where(_by_block(length, block) % 2, drawn * LEAST, drawn * (MOST / 2)))


def _negative(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    drawn = np.abs(_normal(generator, length)) + 0.05
    return np.where(_by_block(length, block) % 2, -drawn, drawn)


def _halfway(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    """A block's largest code has the mantissa 1.75 in both formats of float8. On ranks 0 and 1 elements have 1.125 and
    1.375, less a little: with two bits of mantissa both are rounded down, and so is their sum, as rank 2 makes it less."""
    drawn = np.full(length, (1.1249 / 1.75, 1.3749 / 1.75, -0.004)[rank])
    drawn[::block] = (1.0, 1.0, 0.0)[rank]
    return np.asarray(drawn * np.where(_by_block(length, block) % 2, -1, 1))


def _loud(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    return np.asarray(_normal(generator, length) * (1000 if rank == 2 else 1))


def _plain(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    """Numbers of which every sum is further from 0 than it may be off."""
    return generator.uniform(1, 2, length)


def _huge(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    return _plain(generator, rank, length, block) * 1e8


def _huge_first(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    """Of each of two halves the first half is huge: both end with plain values, and so do shards."""
    return _plain(generator, rank, length, block) * np.where(np.arange(length) * 4 // length % 2, 1, 1e8)


def _huge_block(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    """One block is huge. The tensor is shorter than a block a rank, and has several blocks all the same."""
    return _plain(generator, rank, length, block) * np.where(np.arange(length) < block, 1e8, 1)


def _unequal(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    """Blocks [448, 256, ...] on one rank, another for each block, and [0, 15.9, ...] on the others. The block's largest
    code is 448 on the one: float8 cannot tell 256 + 15.9 from 256."""
    largest, large, small = UNEQUAL
    owner = np.arange(length) // block % 8 == rank
    drawn = np.where(owner, large, small)
    drawn[::block] = np.where(owner, largest, 0.0)[::block]
    return drawn


def _nothing(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    return np.zeros(length)


def _nothing_on_rank_1(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    """What one rank has is no reason to leave: the others wait for it, and it needs their sum."""
    return _nothing(generator, rank, length, block) if rank == 1 else _plain(generator, rank, length, block)


def _blank(only: int) -> Values:
    """Half of the blocks are zero: on all ranks, or on rank `only` alone where that is not 0."""

    def values(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
        drawn = _normal(generator, length)
        return drawn * (_by_block(length, block) % 2) if only in (0, rank) else drawn

    return values


def _sparse(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    return np.asarray(_normal(generator, length) * (np.arange(length) % 3 == 0))


def _opposite(generator: np.random.Generator, rank: int, length: int, block: int) -> Array:
    """The same small numbers on all ranks, with the sign changed on every second: codes are the same, too."""
    values = (np.arange(length) * 7 % 16 + 1.0) / 4
    return np.asarray(values if rank % 2 else -values)


# ---- layouts


def every_third(values: Array) -> Strided:
    """A vector as x[::3] of a longer one, whose other elements are 77."""
    storage = np.full(3 * len(values), 77, values.dtype)
    storage[::3] = values
    return Strided(storage, values.shape, (3,))


def _matrix(values: Array) -> Strided:
    return Strided.of(values.reshape(6, -1))


def _transposed(values: Array) -> Strided:
    matrix = values.reshape(6, -1)
    stored = Strided.of(np.ascontiguousarray(matrix.T))
    return Strided(stored.storage, matrix.shape, (1, 6))
