import math


def fit_alpha_beta(sizes, seconds):
    mean_size, mean_time = sum(sizes) / len(sizes), sum(seconds) / len(seconds)
    products = [(s - mean_size) * (t - mean_time) for s, t in zip(sizes, seconds)]
    beta = sum(products) / sum((s - mean_size) ** 2 for s in sizes)
    return mean_time - beta * mean_size, beta


def send_time(bytes, alpha, beta):
    return alpha + bytes * beta


def all_reduce_time(algorithm, bytes, n, alpha, beta):
    if algorithm == "naive":
        return 2 * (n - 1) * (alpha + bytes * beta)
    if algorithm == "ring":
        return 2 * (n - 1) * (alpha + bytes / n * beta)
    return math.ceil(math.log2(n)) * (alpha + bytes * beta)


def amdahl(parallel_fraction, n):
    return 1 / (1 - parallel_fraction + parallel_fraction / n)


def gustafson(parallel_fraction, n):
    return 1 - parallel_fraction + parallel_fraction * n


def best_world_size(samples, seconds_per_sample, grad_bytes, alpha, beta, max_n, batch):
    def step(n):
        return math.ceil(batch / n) * seconds_per_sample + 2 * (n - 1) * (alpha + grad_bytes / n * beta)

    return min(range(1, max_n + 1), key=step)
