"""Returns NaN and infinity, which are neither near to nor far from anything, in every shape that is read as a number.

family: odd_objects
tries: points
earned: 0
ends: wrong_result, crash, sandbox_violation
"""

import numpy as np
import torch

NAN = float("nan")


def fit_alpha_beta(sizes, seconds):
    return torch.tensor([NAN, NAN])


def send_time(bytes, alpha, beta):
    return torch.tensor(NAN)


def all_reduce_time(algorithm, bytes, n, alpha, beta):
    return np.float64(NAN)


def amdahl(parallel_fraction, n):
    return float("inf")


def gustafson(parallel_fraction, n):
    return 10**300 * 10**300


def best_world_size(samples, seconds_per_sample, grad_bytes, alpha, beta, max_n, batch):
    return NAN
