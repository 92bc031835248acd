"""Nothing is written yet.

check: fit
kind: crash
"""

import math


def fit_alpha_beta(sizes, seconds):
    raise NotImplementedError()


def send_time(bytes, alpha, beta):
    raise NotImplementedError()


def all_reduce_time(algorithm, bytes, n, alpha, beta):
    raise NotImplementedError()


def amdahl(parallel_fraction, n):
    raise NotImplementedError()


def gustafson(parallel_fraction, n):
    raise NotImplementedError()


def best_world_size(samples, seconds_per_sample, grad_bytes, alpha, beta, max_n, batch):
    raise NotImplementedError()
