"""One batch after another, by a task that gets fn as a reference."""
import itertools
import os

import ray


@ray.remote
def call(fn, item):
    return fn(item)


def process_all(items, fn, max_in_flight):
    shared, left, results = ray.put(fn), iter(items), []
    while batch := list(itertools.islice(left, max_in_flight)):
        results += ray.get([call.remote(shared, item) for item in batch])
    return results


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
