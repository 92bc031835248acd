"""Centered sums for the fit, an if-chain for the algorithms, and min with a key for the search."""

import math


def fit_alpha_beta(sizes: list[int], seconds: list[float]) -> tuple[float, float]:
    mean_size = sum(sizes) / len(sizes)
    mean_time = sum(seconds) / len(seconds)
    above = sum((s - mean_size) * (t - mean_time) for s, t in zip(sizes, seconds))
    below = sum((s - mean_size) ** 2 for s in sizes)
    beta = above / below
    return mean_time - beta * mean_size, beta


def send_time(bytes: int, alpha: float, beta: float) -> float:
    return float(alpha + bytes * beta)


def all_reduce_time(algorithm: str, bytes: int, n: int, alpha: float, beta: float) -> float:
    if n == 1:
        return 0.0
    if algorithm == "naive":
        return 2 * (n - 1) * send_time(bytes, alpha, beta)
    if algorithm == "ring":
        return 2 * (n - 1) * send_time(bytes / n, alpha, beta)
    if algorithm == "tree":
        return math.ceil(math.log2(n)) * send_time(bytes, alpha, beta)
    raise ValueError(algorithm)


def amdahl(parallel_fraction: float, n: int) -> float:
    return 1.0 / ((1.0 - parallel_fraction) + parallel_fraction / n)


def gustafson(parallel_fraction: float, n: int) -> float:
    return (1.0 - parallel_fraction) + parallel_fraction * n


def best_world_size(
    samples: int, seconds_per_sample: float, grad_bytes: int, alpha: float, beta: float, max_n: int, batch: int
) -> int:
    def step(n: int) -> float:
        return -(-batch // n) * seconds_per_sample + all_reduce_time("ring", grad_bytes, n, alpha, beta)

    return min(range(1, max_n + 1), key=step)
