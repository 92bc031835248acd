"""A table of steps and bytes for each algorithm, a Link class, and statistics.linear_regression for the fit."""

import statistics
from dataclasses import dataclass

SCHEDULES = {
    "naive": lambda size, n: (2 * (n - 1), size),
    "ring": lambda size, n: (2 * (n - 1), size / n),
    "tree": lambda size, n: ((n - 1).bit_length(), size),
}


@dataclass(frozen=True)
class Link:
    alpha: float
    beta: float

    def message(self, size: float) -> float:
        return self.alpha + size * self.beta

    def all_reduce(self, algorithm: str, size: float, n: int) -> float:
        steps, each = SCHEDULES[algorithm](size, n)
        return float(steps * self.message(each))


def fit_alpha_beta(sizes: list[int], seconds: list[float]) -> tuple[float, float]:
    line = statistics.linear_regression(sizes, seconds)
    return float(line.intercept), float(line.slope)


def send_time(bytes: int, alpha: float, beta: float) -> float:
    return float(Link(alpha, beta).message(bytes))


def all_reduce_time(algorithm: str, bytes: int, n: int, alpha: float, beta: float) -> float:
    return Link(alpha, beta).all_reduce(algorithm, bytes, n)


def amdahl(parallel_fraction: float, n: int) -> float:
    return n / (n * (1 - parallel_fraction) + parallel_fraction)


def gustafson(parallel_fraction: float, n: int) -> float:
    return float(1 + parallel_fraction * (n - 1))


def best_world_size(
    samples: int, seconds_per_sample: float, grad_bytes: int, alpha: float, beta: float, max_n: int, batch: int
) -> int:
    link = Link(alpha, beta)
    steps = {
        n: (batch // n + (batch % n > 0)) * seconds_per_sample + link.all_reduce("ring", grad_bytes, n)
        for n in range(1, max_n + 1)
    }
    return sorted(steps, key=lambda n: (steps[n], n))[0]
