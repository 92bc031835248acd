"""Returns a class of list that never ends when it is packed, after the function has returned.

family: odd_objects
tries: harm
earned: 0
heavy: yes
ends: timeout, crash, out_of_memory, sandbox_violation, missing_function
"""


class Endless(list):
    def __iter__(self):
        while True:
            yield 1.0


def send_time(bytes, alpha, beta):
    return Endless([1])


def all_reduce_time(algorithm, bytes, n, alpha, beta):
    return Endless([1])
