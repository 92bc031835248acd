"""Returns whatever could be taken for several answers: lists of all candidates, dicts that look like our own packing,
generators, numbers with an imaginary part.

family: odd_objects
tries: points
earned: 0
ends: wrong_result, crash, sandbox_violation
"""


def fit_alpha_beta(sizes, seconds):
    return {"$tensor": {"dtype": "float64", "shape": [2], "stride": [1], "offset": 0}, "nbytes": 16}


def send_time(bytes, alpha, beta):
    return [bytes * beta, alpha, alpha + bytes * beta]


def all_reduce_time(algorithm, bytes, n, alpha, beta):
    return complex(1, 1)


def amdahl(parallel_fraction, n):
    return (x for x in range(10))


def gustafson(parallel_fraction, n):
    return {"$other": "float", "$dict": {"a": 1}}


def best_world_size(samples, seconds_per_sample, grad_bytes, alpha, beta, max_n, batch):
    return list(range(1, max_n + 1))
