"""What communication costs by the formulas, what it cost on the simulator, and what the usual mistakes come to.

Messages take alpha + S beta seconds (Hockney 1994); the all-reduces are those of Thakur, Rabenseifner and Gropp 2005,
sections 3 and 4; the laws are Amdahl 1967 and Gustafson 1988. Sizes are in bytes, times in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

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

_IN_BITS = "Your result counts bits. Leave S in bytes: beta is seconds per byte."
_DIVIDED = "Your result divides by beta. Multiply instead: beta is seconds per byte, not bytes per second."
_EXCHANGED = "Your result exchanges alpha and beta. alpha is the latency, and beta is seconds per byte."
_EACH_STEP = "Your result counts the latency once. Count the latency in each of the 2(N-1) steps."
_NATURAL = "Your result uses the natural logarithm. Use log2: the ranks in a partial sum double in each round."
_SERIAL = "Your result takes the parallel fraction for the serial one. The serial fraction is 1-p."
_EFFICIENCY = "Your result is the efficiency. Return the speed-up, which is n times as large."
_FIRST = "Your result takes n for the fraction. The fraction is the first argument."

_MISTAKES: dict[str, tuple[Mistake, ...]] = {
    "send": (
        (lambda s, a, b: s * b, "The latency, alpha, is missing."),
        (lambda s, a, b: a, "The transfer time, S beta, is missing."),
        (lambda s, a, b: max(a, s * b), "Your result is the larger of latency and transfer time. Add the two."),
        (lambda s, a, b: send(8 * s, a, b), _IN_BITS),
        (lambda s, a, b: send(s, a, 1 / b), _DIVIDED),
        (lambda s, a, b: send(s, b, a), _EXCHANGED),
    ),
    "naive": (
        (lambda s, n, a, b: (n - 1) * send(s, a, b), "Count the way back, too: the other ranks need the sum."),
        (lambda s, n, a, b: 2 * send(s, a, b), "Count the messages one after another: rank 0 has one port."),
        (lambda s, n, a, b: 2 * send((n - 1) * s, a, b), "Count one latency for each message, not for each way."),
        (lambda s, n, a, b: send(2 * (n - 1) * s, a, b), "Count the latency for each message, not once."),
        (lambda s, n, a, b: 2 * n * send(s, a, b), "Your result counts N other ranks. Rank 0 has N-1 others."),
        (ring, "Your result is the ring's time. The naive way moves whole tensors."),
    ),
    "ring": (
        (lambda s, n, a, b: 2 * (n - 1) * a + (n - 1) / n * s * b, "Count 2(N-1)/N of the bytes, not (N-1)/N."),
        (lambda s, n, a, b: ring(s, n, a, b) / 2, "Your result is the reduce-scatter alone. Add the all-gather."),
        (lambda s, n, a, b: send(2 * (n - 1) / n * s, a, b), _EACH_STEP),
        (lambda s, n, a, b: send(2 * (n - 1) / n * s, 2 * a, b), _EACH_STEP.replace("once", "twice")),
        (naive, "Your result counts the whole tensor in every step. A step of the ring moves S/N bytes."),
        (lambda s, n, a, b: 2 * n * send(s / n, a, b), "Your result counts 2N steps. A ring takes 2(N-1)."),
        (lambda s, n, a, b: 2 * (n - 1) * send(s // n, a, b), "Your result rounds S/N down. Do not round."),
        (lambda s, n, a, b: 2 * (n - 1) * send(-(-s // n), a, b), "Your result rounds S/N up. Do not round."),
    ),
    "tree": (
        (lambda s, n, a, b: 2 * tree(s, n, a, b), "Your result counts each round twice. Count log2(N) rounds."),
        (lambda s, n, a, b: tree(s / n, n, a, b), "Your result counts S/N bytes in a round. Count the whole tensor."),
        (lambda s, n, a, b: send(tree(s, n, 0, b) / b, a, b), "Count the latency in each round, not once."),
        (lambda s, n, a, b: tree(s, 2 * n, a, b), "Your result counts one round too many. Count log2(N)."),
        (lambda s, n, a, b: tree(s, n, a, b) - send(s, a, b), "Your result counts one round too few. Count log2(N)."),
        (lambda s, n, a, b: math.ceil(math.log(n)) * send(s, a, b), _NATURAL),
        (lambda s, n, a, b: math.log(n) * send(s, a, b), _NATURAL),
        (lambda s, n, a, b: (n - 1) * send(s, a, b), "Your result counts N-1 rounds. log2(N) rounds are enough."),
        (ring, "Your result is the ring's time, not the tree's."),
    ),
    "amdahl": (
        (gustafson, "Your result is Gustafson's law, for a job that grows with n. Use Amdahl's."),
        (lambda p, n: amdahl(1 - p, n), _SERIAL),
        (lambda p, n: 1 / (1 - p), "Your result is the limit for infinitely many ranks. Compute it for n."),
        (lambda p, n: 1 / amdahl(p, n), "Your result is the share of time that is left. Return its reciprocal."),
        (lambda p, n: amdahl(p, n) / n, _EFFICIENCY),
        (lambda p, n: amdahl(n, p) if p else math.nan, _FIRST),
    ),
    "gustafson": (
        (amdahl, "Your result is Amdahl's law, for a job of fixed size. Use Gustafson's."),
        (lambda p, n: gustafson(1 - p, n), _SERIAL),
        (lambda p, n: p * n, "The serial part, 1-p, is missing."),
        (lambda p, n: gustafson(p, n) / n, _EFFICIENCY),
        (lambda p, n: gustafson(n, p), _FIRST),
    ),
}  # fmt: skip


def mistakes(key: str) -> list[Mistake]:
    """The mistakes with the formula called `key`, the likeliest first."""
    formula, _ = FORMULAS[key]
    found = list(_MISTAKES[key])
    if key in ALGORITHMS:
        found += [
            (lambda s, n, a, b: formula(s, n, 0, b), "The latency is missing. An empty message takes it, too."),
            (lambda s, n, a, b: formula(s, n, a, 0), "The transfer time is missing."),
            (lambda s, n, a, b: formula(8 * s, n, a, b), _IN_BITS),
            (lambda s, n, a, b: formula(s, n, a, 1 / b), _DIVIDED),
            (lambda s, n, a, b: formula(s, n, b, a), _EXCHANGED),
        ]
    if key not in ("amdahl", "gustafson"):
        found += [
            (lambda *given: 1e3 * formula(*given), "Your result is in milliseconds. Return seconds."),
            (lambda *given: 1e6 * formula(*given), "Your result is in microseconds. Return seconds."),
        ]
    return found


# Each wrong way to choose n, and what to say about it. The graded jobs are drawn so that every one of them shows.
CHOICES: tuple[tuple[Callable[[Job], int], str], ...] = (
    (lambda j: j.best(lambda n: j.batch / n * j.seconds_per_sample + j.ring(n)),
     "Your n would be the best if a sample could be cut. The slowest rank computes ceil(batch/n) whole samples."),
    (lambda j: j.best(lambda n: j.batch // n * j.seconds_per_sample + j.ring(n)),
     "Your n would be the best if batch/n were rounded down. The slowest rank computes ceil(batch/n) samples."),
    (lambda j: j.best(lambda n: math.ceil(j.samples / n) * j.seconds_per_sample + j.ring(n)),
     "Your n would be the best if a step computed the whole data set. A step computes `batch` samples."),
    (lambda j: j.best(lambda n: j.batch * j.seconds_per_sample + j.ring(n)),
     "Your n would be the best if every rank computed the whole batch. Split the batch over n ranks."),
    (lambda j: j.best(j.compute), "Your n would be the best if the all-reduce cost nothing. Add its time."),
    (lambda j: j.best(lambda n: j.compute(n) + 2 * (n - 1) / n * j.grad_bytes * j.beta),
     "Your n would be the best if latency counted once or never. Count it in each of the ring's 2(N-1) steps."),
    (lambda j: j.best(lambda n: j.compute(n) + 2 * (n - 1) * j.alpha),
     "Your n would be the best if the gradients' bytes cost nothing. Add their transfer time."),
    (lambda j: j.best(lambda n: j.compute(n) + naive(j.grad_bytes, n, j.alpha, j.beta)),
     "Your n is the best for the naive all-reduce. The step uses the ring."),
    (lambda j: max(range(1, j.max_n + 1), key=j.step), "Your n has the longest step. Choose the shortest."),
    (lambda j: min(range(1, max(j.max_n, j.batch) + 1), key=j.step),
     "Your n would be the best if there were no max_n."),
    (lambda j: min(range(1, max(j.max_n, 2)), key=j.step), "Your n is the best below max_n. Try max_n, too."),
    (lambda j: min(range(min(2, j.max_n), j.max_n + 1), key=j.step),
     "Your n is the best above 1. Try n = 1, too: one rank needs no all-reduce."),
    (lambda j: min((2**k for k in range(j.max_n.bit_length())), key=j.step),
     "Your n is the best power of two. Try every n from 1 to max_n."),
    (lambda j: min((n for n in range(1, j.max_n + 1) if j.batch % n == 0), key=j.step),
     "Your n is the best that divides the batch. Try every n from 1 to max_n."),
    (lambda j: next((n for n in range(1, j.max_n) if j.step(n + 1) >= j.step(n)), j.max_n),
     "The step time stops falling at your n, but it falls again for a larger n. Try every n."),
)  # fmt: skip
INDEX: tuple[Callable[[Job], int], str] = (lambda j: j.best() - 1, "Your n is 1 too small. Do not count from 0.")
ROUNDED: tuple[Callable[[Job], int], str] = (
    lambda j: j.best(lambda n: round(j.step(n), 6)),
    "Your n would be the best if steps were rounded to whole microseconds. Do not round.",
)


def _by_a_nanosecond(job: Job) -> int:
    """The n of somebody for whom a step wins only if it is shorter by more than 1 ns."""
    best = 1
    for n in range(2, job.max_n + 1):
        best = n if job.step(n) < job.step(best) - 1e-9 else best
    return best


CLOSE: tuple[Callable[[Job], int], str] = (
    _by_a_nanosecond,
    "Your n would be the best if a step had to be more than 1 ns shorter to win. Any shorter step wins.",
)
CUT: tuple[Callable[[Job], int], str] = (
    lambda j: replace(j, batch=min(j.batch, j.samples)).best(),
    "Your n would be the best if a batch had no more samples than the data set. Every step has `batch` samples.",
)

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
