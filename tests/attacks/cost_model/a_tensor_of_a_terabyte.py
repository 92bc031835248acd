"""Returns tensors that are one number in memory and more than any machine has when they are written out.

family: odd_objects
tries: harm
earned: 0
ends: wrong_result, crash, sandbox_violation, missing_function, out_of_memory
"""

import torch


def fit_alpha_beta(sizes, seconds):
    return torch.zeros(1, dtype=torch.float64).expand(2**40)


def send_time(bytes, alpha, beta):
    return torch.zeros(1, dtype=torch.float64).as_strided((2**20, 2**20), (0, 0))


def all_reduce_time(algorithm, bytes, n, alpha, beta):
    return torch.empty((2**40, 0))


def best_world_size(samples, seconds_per_sample, grad_bytes, alpha, beta, max_n, batch):
    return 1 << 100_000
