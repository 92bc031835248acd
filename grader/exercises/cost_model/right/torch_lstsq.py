"""torch throughout: lstsq in float64, and tensors without dimensions where numbers are asked for."""

import torch


def fit_alpha_beta(sizes, seconds):
    sizes = torch.tensor(sizes, dtype=torch.float64)
    rows = torch.stack([torch.ones_like(sizes), sizes], dim=1)
    return torch.linalg.lstsq(rows, torch.tensor(seconds, dtype=torch.float64)[:, None]).solution[:, 0]


def send_time(bytes, alpha, beta):
    return torch.tensor(alpha, dtype=torch.float64) + bytes * beta


def all_reduce_time(algorithm, bytes, n, alpha, beta):
    if algorithm == "tree":
        return (n - 1).bit_length() * send_time(bytes, alpha, beta)
    return 2 * (n - 1) * send_time(bytes / n if algorithm == "ring" else bytes, alpha, beta)


def amdahl(parallel_fraction, n):
    return torch.tensor([1 - parallel_fraction, parallel_fraction / n], dtype=torch.float64).sum().reciprocal()


def gustafson(parallel_fraction, n):
    return torch.tensor(1 - parallel_fraction, dtype=torch.float64) + parallel_fraction * n


def best_world_size(samples, seconds_per_sample, grad_bytes, alpha, beta, max_n, batch):
    n = torch.arange(1, max_n + 1, dtype=torch.float64)
    step = torch.ceil(batch / n) * seconds_per_sample + 2 * (n - 1) * (alpha + grad_bytes / n * beta)
    return (step == step.min()).nonzero()[0, 0] + 1
