"""The standard library's regression, a class for the link, and exact fractions for the laws."""

import statistics
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2


@dataclass
class Link:
    alpha: float
    beta: float

    def message(self, size):
        return self.alpha + size * self.beta


def fit_alpha_beta(sizes, seconds):
    slope, intercept = statistics.linear_regression(sizes, seconds)
    return intercept, slope


def send_time(bytes, alpha, beta):
    return Link(alpha, beta).message(bytes)


def naive(link, size, n):
    return sum(2 * link.message(size) for _ in range(1, n))


def ring(link, size, n):
    reduce_scatter = all_gather = (n - 1) * link.message(size / n)
    return reduce_scatter + all_gather


def tree(link, size, n):
    return ceil(log2(n)) * link.message(size)


def all_reduce_time(algorithm, bytes, n, alpha, beta):
    return {"naive": naive, "ring": ring, "tree": tree}[algorithm](Link(alpha, beta), bytes, n)


def amdahl(parallel_fraction, n):
    parallel = Fraction(parallel_fraction)
    return float(1 / ((1 - parallel) + parallel / n))


def gustafson(parallel_fraction, n):
    parallel = Fraction(parallel_fraction)
    return float((1 - parallel) + parallel * n)


def best_world_size(samples, seconds_per_sample, grad_bytes, alpha, beta, max_n, batch):
    link = Link(alpha, beta)
    times = [ceil(batch / n) * seconds_per_sample + ring(link, grad_bytes, n) for n in range(1, max_n + 1)]
    return times.index(min(times)) + 1
