"""All that is done is collected at once, and as many are submitted again, by a task that gets fn as a reference."""
import itertools
import os

import ray


@ray.remote
def call(fn, item):
    return fn(item)


def process_all(items, fn, max_in_flight):
    shared, left, results, flying = ray.put(fn), enumerate(items), {}, {}
    while len(results) < len(items):
        for place, item in itertools.islice(left, max_in_flight - len(flying)):
            flying[call.remote(shared, item)] = place
        ray.wait(list(flying))
        done, _ = ray.wait(list(flying), num_returns=len(flying), timeout=0)
        results |= zip(map(flying.pop, done), ray.get(done))
    return [results[place] for place in range(len(items))]


@ray.remote(max_restarts=-1, max_task_retries=3)
class Counter:
    def __init__(self, path: str) -> None:
        self.path = path
        if not os.path.exists(path):
            self._store(0)

    def _store(self, count: int) -> None:
        with open(self.path, "w") as file:
            file.write(f"{count:d}")

    def increment(self, by: int = 1) -> int:
        self._store(self.value() + by)
        return self.value()

    def value(self) -> int:
        with open(self.path) as file:
            return int(file.read())
