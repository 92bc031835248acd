"""numpy throughout: polyfit, arrays of candidates, argmin."""

import numpy as np


def fit_alpha_beta(sizes, seconds):
    beta, alpha = np.polyfit(sizes, seconds, 1)
    return alpha, beta


def send_time(bytes, alpha, beta):
    return np.dot([1, bytes], [alpha, beta])


def all_reduce_time(algorithm, bytes, n, alpha, beta):
    steps, size = {
        "naive": (2 * (n - 1), bytes),
        "ring": (2 * (n - 1), bytes / n),
        "tree": (np.log2(n), bytes),
    }[algorithm]
    return steps * send_time(size, alpha, beta)


def amdahl(parallel_fraction, n):
    return np.float64(n) / (n * (1 - parallel_fraction) + parallel_fraction)


def gustafson(parallel_fraction, n):
    return n - (1 - parallel_fraction) * (n - 1)


def best_world_size(samples, seconds_per_sample, grad_bytes, alpha, beta, max_n, batch):
    n = np.arange(1, max_n + 1)
    step = np.ceil(batch / n) * seconds_per_sample + 2 * (n - 1) * alpha + 2 * (n - 1) / n * grad_bytes * beta
    return int(n[np.argmin(step)])
