"""Exact arithmetic: everything in fractions, rounded to float once at the end."""

from fractions import Fraction as F


def fit_alpha_beta(sizes: list[int], seconds: list[float]) -> tuple[float, float]:
    xs, ys, count = [F(x) for x in sizes], [F(y) for y in seconds], len(sizes)
    sx, sy = sum(xs), sum(ys)
    sxx, sxy = sum(x * x for x in xs), sum(x * y for x, y in zip(xs, ys))
    # the normal equations, by Cramer's rule
    determinant = count * sxx - sx * sx
    return float((sxx * sy - sx * sxy) / determinant), float((count * sxy - sx * sy) / determinant)


def message(size: F, alpha: float, beta: float) -> F:
    return F(alpha) + F(size) * F(beta)


def send_time(bytes: int, alpha: float, beta: float) -> float:
    return float(message(F(bytes), alpha, beta))


def exact_all_reduce(algorithm: str, size: F, n: int, alpha: float, beta: float) -> F:
    if algorithm == "tree":
        steps, part = n.bit_length() - 1, size
    else:
        steps, part = 2 * (n - 1), {"naive": size, "ring": size / n}[algorithm]
    return steps * message(part, alpha, beta)


def all_reduce_time(algorithm: str, bytes: int, n: int, alpha: float, beta: float) -> float:
    return float(exact_all_reduce(algorithm, F(bytes), n, alpha, beta))


def amdahl(parallel_fraction: float, n: int) -> float:
    p = F(parallel_fraction)
    return float(1 / (1 - p + p / n))


def gustafson(parallel_fraction: float, n: int) -> float:
    p = F(parallel_fraction)
    return float(n - (1 - p) * (n - 1))


def best_world_size(
    samples: int, seconds_per_sample: float, grad_bytes: int, alpha: float, beta: float, max_n: int, batch: int
) -> int:
    best = None
    for n in range(1, max_n + 1):
        slowest = (batch + n - 1) // n
        time = slowest * F(seconds_per_sample) + exact_all_reduce("ring", F(grad_bytes), n, alpha, beta)
        if best is None or time < best[0]:
            best = time, n
    return best[1]
