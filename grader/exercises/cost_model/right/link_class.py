"""Numpy lstsq with scaled sizes, a frozen dataclass with a method per algorithm found by getattr, algebraically equal forms."""

import math
from dataclasses import dataclass
from operator import itemgetter

import numpy


@dataclass(frozen=True)
class Link:
    alpha: float
    beta: float

    def __call__(self, size):
        return self.alpha + self.beta * size

    def naive(self, size, n):
        return 2 * (n - 1) * self(size)

    def ring(self, size, n):
        return 2 * (n - 1) * self(size / n)

    def tree(self, size, n):
        return round(math.log2(n)) * self(size)


def fit_alpha_beta(sizes, seconds):
    x, y = numpy.asarray(sizes, dtype=float), numpy.asarray(seconds, dtype=float)
    scale = x.max() or 1.0
    (alpha, slope), *_ = numpy.linalg.lstsq(numpy.stack([numpy.ones_like(x), x / scale], 1), y, rcond=None)
    return float(alpha), float(slope / scale)


def send_time(bytes, alpha, beta):
    return Link(alpha, beta)(bytes)


def all_reduce_time(algorithm, bytes, n, alpha, beta):
    return float(getattr(Link(alpha, beta), algorithm)(bytes, n))


def amdahl(parallel_fraction, n):
    return n / (n * (1 - parallel_fraction) + parallel_fraction)


def gustafson(parallel_fraction, n):
    return (1 - parallel_fraction) + n * parallel_fraction


def best_world_size(samples, seconds_per_sample, grad_bytes, alpha, beta, max_n, batch):
    ring = Link(alpha, beta).ring
    steps = ((math.ceil(batch / n) * seconds_per_sample + ring(grad_bytes, n), n) for n in range(1, max_n + 1))
    return min(steps, key=itemgetter(0))[1]
