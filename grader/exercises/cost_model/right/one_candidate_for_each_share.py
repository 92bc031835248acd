"""NumPy for the fit; the search tries the smallest n for each number of samples on the slowest rank."""

import numpy as np


def fit_alpha_beta(sizes: list[int], seconds: list[float]) -> tuple[float, float]:
    x, y = np.asarray(sizes, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    dx = x - x.mean()
    beta = float(np.dot(dx, y - y.mean()) / np.dot(dx, dx))
    return float(y.mean() - beta * x.mean()), beta


def send_time(bytes: int, alpha: float, beta: float) -> float:
    return alpha + beta * bytes + 0.0


def _naive(size, n, alpha, beta):
    collect = sum(send_time(size, alpha, beta) for _ in range(n - 1))
    return collect + collect


def _ring(size, n, alpha, beta):
    return 2.0 * (n - 1) * alpha + 2.0 * (n - 1) * (size / n) * beta


def _tree(size, n, alpha, beta):
    total, reach = 0.0, 1
    while reach < n:
        total += send_time(size, alpha, beta)
        reach *= 2
    return total


def all_reduce_time(algorithm: str, bytes: int, n: int, alpha: float, beta: float) -> float:
    return float({"naive": _naive, "ring": _ring, "tree": _tree}[algorithm](bytes, n, alpha, beta))


def amdahl(parallel_fraction: float, n: int) -> float:
    serial = 1 - parallel_fraction
    return float((serial + parallel_fraction) / (serial + parallel_fraction / n))


def gustafson(parallel_fraction: float, n: int) -> float:
    serial = 1 - parallel_fraction
    return float((serial + n * parallel_fraction) / (serial + parallel_fraction))


def best_world_size(
    samples: int, seconds_per_sample: float, grad_bytes: int, alpha: float, beta: float, max_n: int, batch: int
) -> int:
    # The ring only gets slower with n, so of all n with the same slowest rank the first is the best.
    best_n, best_time, last = 1, None, None
    for n in range(1, min(max_n, batch) + 1):
        slowest = (batch - 1) // n + 1
        if slowest == last:
            continue
        last = slowest
        time = slowest * seconds_per_sample + _ring(grad_bytes, n, alpha, beta)
        if best_time is None or time < best_time:
            best_n, best_time = n, time
    return best_n
