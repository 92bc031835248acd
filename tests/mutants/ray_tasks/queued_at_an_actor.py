"""All calls are queued at once at an actor that runs so many at a time.
check: in_flight
kind: too_many_messages
"""
import os

import ray


@ray.remote(max_restarts=-1, max_task_retries=-1)
class Pool:
    def call(self, fn, item):
        return fn(item)


def process_all(items, fn, max_in_flight):
    pool = Pool.options(max_concurrency=max_in_flight).remote()
    given = ray.put(fn)
    return ray.get([pool.call.remote(given, item) for item in items])


@ray.remote(max_restarts=-1, max_task_retries=-1)
class Counter:
    def __init__(self, path):
        self.path = path
        self.count = int(open(path).read()) if os.path.exists(path) else 0

    def increment(self, by=1):
        self.count += by
        with open(self.path + ".new", "w") as file:
            file.write(str(self.count))
        os.replace(self.path + ".new", self.path)
        return self.count

    def value(self):
        return self.count
