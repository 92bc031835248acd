"""Tries only the smallest n for each number of samples on the slowest rank: a larger one with as many only sends more."""

import math

import numpy as np


def fit_alpha_beta(sizes, seconds):
    design = np.column_stack([np.ones(len(sizes)), sizes])
    (alpha, beta), *_ = np.linalg.lstsq(design, np.array(seconds), rcond=None)
    return alpha.item(), beta.item()


def send_time(bytes, alpha, beta):
    return math.fsum([alpha, bytes * beta])


def all_reduce_time(algorithm, bytes, n, alpha, beta):
    if n == 1:
        return 0
    if algorithm == "naive":
        return send_time(bytes, alpha, beta) * (n - 1) * 2
    if algorithm == "ring":
        return 2 * (n - 1) * alpha + 2 * (n - 1) / n * bytes * beta
    return send_time(bytes, alpha, beta) + all_reduce_time("tree", bytes, n // 2, alpha, beta)


def amdahl(parallel_fraction, n):
    return n / (n - parallel_fraction * (n - 1))


def gustafson(parallel_fraction, n):
    return 1 + parallel_fraction * (n - 1)


def best_world_size(samples, seconds_per_sample, grad_bytes, alpha, beta, max_n, batch):
    candidates = {-(-batch // share) for share in range(1, batch + 1)}
    best = (batch * seconds_per_sample, 1)
    for n in candidates:
        if n <= max_n:
            step = -(-batch // n) * seconds_per_sample + all_reduce_time("ring", grad_bytes, n, alpha, beta)
            best = min(best, (step, n))
    return best[1]
