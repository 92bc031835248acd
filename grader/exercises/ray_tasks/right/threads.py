"""A thread of the driver for each place in flight, which waits for its task; a counter that appends to a log."""
import os
from concurrent.futures import ThreadPoolExecutor

import ray


@ray.remote
def call(fn, item):
    return fn(item)


def process_all(items, fn, max_in_flight):
    given = ray.put(fn)
    with ThreadPoolExecutor(max_in_flight) as threads:
        return list(threads.map(lambda item: ray.get(call.remote(given, item)), items))


class Log:
    def __init__(self, path):
        self.file = open(path, "a+")

    def value(self):
        self.file.seek(0)
        return sum(int(line) for line in self.file if line.endswith("\n"))

    def increment(self, by=1):
        self.file.write(f"{by}\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.value()


Counter = ray.remote(max_restarts=100)(Log)
