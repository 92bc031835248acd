"""The normal equations in closed form, loops without imports, and a whole epoch where a step would do."""


def fit_alpha_beta(sizes, seconds):
    count = len(sizes)
    x = y = xx = xy = 0.0
    for size, time in zip(sizes, seconds):
        x += size
        y += time
        xx += size * size
        xy += size * time
    determinant = count * xx - x * x
    return [(y * xx - x * xy) / determinant, (count * xy - x * y) / determinant]


def send_time(bytes, alpha, beta):
    return alpha + beta * bytes


def all_reduce_time(algorithm, bytes, n, alpha, beta):
    total = 0.0
    if algorithm == "tree":
        distance = 1
        while distance < n:
            total += send_time(bytes, alpha, beta)
            distance *= 2
    else:
        for _ in range(2 * (n - 1)):
            total += send_time(bytes if algorithm == "naive" else bytes / n, alpha, beta)
    return total


def amdahl(parallel_fraction, n):
    serial = 1 - parallel_fraction
    return 1 / (serial + (1 - serial) / n)


def gustafson(parallel_fraction, n):
    serial = 1 - parallel_fraction
    return n + (1 - n) * serial


def best_world_size(samples, seconds_per_sample, grad_bytes, alpha, beta, max_n, batch):
    steps = (samples + batch - 1) // batch
    best, least = None, float("inf")
    for n in range(1, max_n + 1):
        slowest = (batch + n - 1) // n
        epoch = steps * (slowest * seconds_per_sample + all_reduce_time("ring", grad_bytes, n, alpha, beta))
        if epoch < least:
            best, least = n, epoch
    return best
