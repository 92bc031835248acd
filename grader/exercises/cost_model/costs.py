"""What communication costs by the formulas, what it cost on the simulator, and what the usual mistakes come to.

Messages take alpha + S beta seconds (Hockney 1994); the all-reduces are those of Thakur, Rabenseifner and Gropp 2005,
sections 3 and 4; the laws are Amdahl 1967 and Gustafson 1988. Sizes are in bytes, times in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from grader.ranks.network import Network

ALGORITHMS = ("naive", "ring", "tree")


def send(size: float, alpha: float, beta: float) -> float:
    return alpha + size * beta


def naive(size: float, n: int, alpha: float, beta: float) -> float:
    return 2 * (n - 1) * send(size, alpha, beta)


def ring(size: float, n: int, alpha: float, beta: float) -> float:
    return 2 * (n - 1) * send(size / n, alpha, beta)


def tree(size: float, n: int, alpha: float, beta: float) -> float:
    """Recursive doubling: `n` is a power of two."""
    return (n.bit_length() - 1) * send(size, alpha, beta)


def amdahl(p: float, n: int) -> float:
    return 1 / ((1 - p) + p / n)


def gustafson(p: float, n: int) -> float:
    return (1 - p) + p * n


@dataclass(frozen=True)
class Job:
    """A training job and what it may use: the arguments of best_world_size, in its order."""

    samples: int
    seconds_per_sample: float
    grad_bytes: int
    alpha: float
    beta: float
    max_n: int
    batch: int

    def compute(self, n: int) -> float:
        """Seconds in which the slowest of `n` ranks computes its samples."""
        return math.ceil(self.batch / n) * self.seconds_per_sample

    def ring(self, n: int) -> float:
        return ring(self.grad_bytes, n, self.alpha, self.beta)

    def step(self, n: int) -> float:
        return self.compute(n) + self.ring(n)

    def best(self, step: Callable[[int], float] | None = None) -> int:
        """The smallest n with the least step time, by trying every one."""
        return min(range(1, self.max_n + 1), key=step or self.step)


FORMULAS: dict[str, tuple[Callable[..., float], str]] = {
    "send": (send, "alpha + S beta"),
    "naive": (naive, "2(N-1)(alpha + S beta)"),
    "ring": (ring, "2(N-1)(alpha + S/N beta)"),
    "tree": (tree, "log2(N)(alpha + S beta)"),
    "amdahl": (amdahl, "1/((1-p) + p/n)"),
    "gustafson": (gustafson, "(1-p) + p n"),
}

# What is computed in place of a formula, and what to say about it; the arguments are the formula's.
Mistake = tuple[Callable[..., float], str]

_IN_BITS = "That counts bits: S is in bytes, and beta in seconds per byte."
_DIVIDED = "That divides by beta: beta is seconds per byte, not bytes per second."
_EXCHANGED = "That takes beta for alpha and alpha for beta."
_EACH_STEP = "That pays the latency once: each of the 2(N-1) steps pays it."
_NATURAL = "That takes the natural logarithm: the ranks in a sum double in each round, so it is log2."

_MISTAKES: dict[str, tuple[Mistake, ...]] = {
    "send": (
        (lambda s, a, b: s * b, "The latency, alpha, is missing."),
        (lambda s, a, b: a, "The transfer, S beta, is missing."),
        (lambda s, a, b: max(a, s * b), "That is the larger of latency and transfer: a message takes both."),
        (lambda s, a, b: send(8 * s, a, b), _IN_BITS),
        (lambda s, a, b: send(s, a, 1 / b), _DIVIDED),
        (lambda s, a, b: send(s, b, a), _EXCHANGED),
    ),
    "naive": (
        (lambda s, n, a, b: (n - 1) * send(s, a, b), "That forgets the way back: the others need the sum too."),
        (lambda s, n, a, b: 2 * send(s, a, b), "That lets rank 0 talk to all at once: it has one port."),
        (lambda s, n, a, b: 2 * send((n - 1) * s, a, b), "That pays one latency each way: each message has its own."),
        (lambda s, n, a, b: send(2 * (n - 1) * s, a, b), "That pays the latency once: each message has its own."),
        (lambda s, n, a, b: 2 * n * send(s, a, b), "That lets rank 0 send to itself: there are N-1 others."),
        (ring, "That is the ring's time: the naive way moves whole tensors."),
    ),
    "ring": (
        (lambda s, n, a, b: 2 * (n - 1) * a + (n - 1) / n * s * b, "That counts (N-1)/N of the bytes: it is 2(N-1)/N."),
        (lambda s, n, a, b: ring(s, n, a, b) / 2, "That is the reduce-scatter alone: an all-gather follows."),
        (lambda s, n, a, b: send(2 * (n - 1) / n * s, a, b), _EACH_STEP),
        (lambda s, n, a, b: send(2 * (n - 1) / n * s, 2 * a, b), _EACH_STEP.replace("once", "twice")),
        (naive, "That sends the whole tensor in every step: a step moves S/N bytes."),
        (lambda s, n, a, b: 2 * n * send(s / n, a, b), "That counts 2N steps: there are 2(N-1)."),
        (lambda s, n, a, b: 2 * (n - 1) * send(s // n, a, b), "That rounds S/N down: it is not rounded here."),
        (lambda s, n, a, b: 2 * (n - 1) * send(-(-s // n), a, b), "That rounds S/N up: it is not rounded here."),
    ),
    "tree": (
        (lambda s, n, a, b: 2 * tree(s, n, a, b), "That goes up a tree and down: here all have the sum at once."),
        (lambda s, n, a, b: tree(s / n, n, a, b), "That sends S/N bytes a round: here it is the whole tensor."),
        (lambda s, n, a, b: send(tree(s, n, 0, b) / b, a, b), "That pays the latency once: each round pays it."),
        (lambda s, n, a, b: tree(s, 2 * n, a, b), "That is one round too many."),
        (lambda s, n, a, b: tree(s, n, a, b) - send(s, a, b), "That is one round too few."),
        (lambda s, n, a, b: math.ceil(math.log(n)) * send(s, a, b), _NATURAL),
        (lambda s, n, a, b: math.log(n) * send(s, a, b), _NATURAL),
        (lambda s, n, a, b: (n - 1) * send(s, a, b), "That is N-1 rounds: there are log2(N), for sums double."),
        (ring, "That is the ring's time."),
    ),
    "amdahl": (
        (gustafson, "That is Gustafson's law, for a job that grows with n."),
        (lambda p, n: amdahl(1 - p, n), "That takes the parallel fraction for the serial one."),
        (lambda p, n: 1 / (1 - p), "That is the limit for infinitely many ranks."),
        (lambda p, n: 1 / amdahl(p, n), "That is the time that is left, as a share: the speed-up is its reciprocal."),
        (lambda p, n: amdahl(p, n) / n, "That is the efficiency, the speed-up divided by n."),
        (lambda p, n: amdahl(n, p) if p else math.nan, "That takes n for the fraction: the fraction comes first."),
    ),
    "gustafson": (
        (amdahl, "That is Amdahl's law, for a job of fixed size."),
        (lambda p, n: gustafson(1 - p, n), "That takes the parallel fraction for the serial one."),
        (lambda p, n: p * n, "The serial part, 1-p, is missing."),
        (lambda p, n: gustafson(p, n) / n, "That is the efficiency, the speed-up divided by n."),
        (lambda p, n: gustafson(n, p), "That takes n for the fraction: the fraction comes first."),
    ),
}  # fmt: skip


def mistakes(key: str) -> list[Mistake]:
    """The mistakes with the formula called `key`, the likeliest first."""
    formula, _ = FORMULAS[key]
    found = list(_MISTAKES[key])
    if key in ALGORITHMS:
        found += [
            (lambda s, n, a, b: formula(s, n, 0, b), "The latency is missing."),
            (lambda s, n, a, b: formula(s, n, a, 0), "The transfer is missing."),
            (lambda s, n, a, b: formula(8 * s, n, a, b), _IN_BITS),
            (lambda s, n, a, b: formula(s, n, a, 1 / b), _DIVIDED),
            (lambda s, n, a, b: formula(s, n, b, a), _EXCHANGED),
        ]
    if key not in ("amdahl", "gustafson"):
        found += [
            (lambda *given: 1e3 * formula(*given), "That is in milliseconds."),
            (lambda *given: 1e6 * formula(*given), "That is in microseconds."),
        ]
    return found


# Each wrong way to choose n, and what to say about it. The graded jobs are drawn so that every one of them shows.
CHOICES: tuple[tuple[Callable[[Job], int], str], ...] = (
    (lambda j: j.best(lambda n: j.batch / n * j.seconds_per_sample + j.ring(n)),
     "That is the best n if a sample could be cut: the slowest rank computes ceil(batch/n) whole ones."),
    (lambda j: j.best(lambda n: j.batch // n * j.seconds_per_sample + j.ring(n)),
     "That is the best n if batch/n is rounded down: the slowest rank computes ceil(batch/n) samples."),
    (lambda j: j.best(lambda n: math.ceil(j.samples / n) * j.seconds_per_sample + j.ring(n)),
     "That is the best n if a step computes the whole data set: it computes `batch` samples."),
    (lambda j: j.best(lambda n: j.batch * j.seconds_per_sample + j.ring(n)),
     "That is the best n if every rank computes the whole batch: it is split over n ranks."),
    (lambda j: j.best(j.compute), "That is the best n if the all-reduce costs nothing."),
    (lambda j: j.best(lambda n: j.compute(n) + 2 * (n - 1) / n * j.grad_bytes * j.beta),
     "That is the best n if latency is paid once or not at all: each of the ring's 2(N-1) steps pays it."),
    (lambda j: j.best(lambda n: j.compute(n) + 2 * (n - 1) * j.alpha),
     "That is the best n if the gradients' bytes cost nothing."),
    (lambda j: j.best(lambda n: j.compute(n) + naive(j.grad_bytes, n, j.alpha, j.beta)),
     "That is the best n for the naive all-reduce: the step uses the ring."),
    (lambda j: max(range(1, j.max_n + 1), key=j.step), "That is the n with the longest step."),
    (lambda j: min(range(1, max(j.max_n, j.batch) + 1), key=j.step),
     "That is the best n if max_n is ignored."),
    (lambda j: min(range(1, max(j.max_n, 2)), key=j.step), "That is the best n below max_n: max_n itself counts too."),
    (lambda j: min(range(min(2, j.max_n), j.max_n + 1), key=j.step),
     "That is the best n above 1: one rank, without any all-reduce, counts too."),
    (lambda j: min((2**k for k in range(j.max_n.bit_length())), key=j.step),
     "That is the best power of two: every n from 1 to max_n counts."),
    (lambda j: min((n for n in range(1, j.max_n + 1) if j.batch % n == 0), key=j.step),
     "That is the best n that divides the batch: every n from 1 to max_n counts."),
    (lambda j: next((n for n in range(1, j.max_n) if j.step(n + 1) >= j.step(n)), j.max_n),
     "The step time rises after that n and falls again further on: try every n."),
)  # fmt: skip
INDEX: tuple[Callable[[Job], int], str] = (lambda j: j.best() - 1, "Is that an index, which counts from 0?")

# Microseconds that all-reduces took on simulated ranks: rows for 2, 4, 8 and 16 ranks, columns for MEASURED_SIZES.
# tests/exercises/test_cost_model.py measures them again.
LAN, NODE = Network(alpha=50e-6, beta=0.8e-9), Network(alpha=4e-6, beta=0.02e-9)
MEASURED_RANKS = (2, 4, 8, 16)
MEASURED_SIZES = (0, 2**14, 2**20)
MEASURED: dict[tuple[Network, str], tuple[tuple[float, float, float], ...]] = {
    (LAN, "naive"): ((100, 126.2144, 1777.7216), (300, 378.6432, 5333.1648), (700, 883.5008, 12444.0512),
                     (1500, 1893.216, 26665.824)),
    (LAN, "ring"): ((100, 113.1072, 938.8608), (300, 319.6608, 1558.2912), (700, 722.9376, 2168.0064),
                    (1500, 1524.576, 3072.864)),
    (LAN, "tree"): ((50, 63.1072, 888.8608), (100, 126.2144, 1777.7216), (150, 189.3216, 2666.5824),
                    (200, 252.4288, 3555.4432)),
    (NODE, "naive"): ((8, 8.65536, 49.94304), (24, 25.96608, 149.82912), (56, 60.58752, 349.60128),
                      (120, 129.8304, 749.1456)),
    (NODE, "ring"): ((8, 8.32768, 28.97152), (24, 24.49152, 55.45728), (56, 56.57344, 92.70016),
                     (120, 120.6144, 159.3216)),
    (NODE, "tree"): ((4, 4.32768, 24.97152), (8, 8.65536, 49.94304), (12, 12.98304, 74.91456),
                     (16, 17.31072, 99.88608)),
}  # fmt: skip
