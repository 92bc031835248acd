"""Returns objects whose types are called like markup, ten thousand characters long: of such values only the type's name
leaves the box.

family: injection
tries: harm
earned: 0
ends: wrong_result, crash, sandbox_violation, missing_function
"""

NAME = "<script>alert(1)</script>[bold red]x[/] \x1b]0;owned\x07 \u202e" + "A" * 10_000


def send_time(bytes, alpha, beta):
    return type(NAME, (), {})()


def amdahl(parallel_fraction, n):
    return [type(NAME, (), {})()] * 3


def best_world_size(samples, seconds_per_sample, grad_bytes, alpha, beta, max_n, batch):
    return "<img src=x onerror=alert(1)>" * 10_000
