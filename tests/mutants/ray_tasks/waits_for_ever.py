"""It waits for a task that never ends.
check: right
kind: timeout
"""
import os

import ray


def process_all(items, fn, max_in_flight):
    import time

    task = ray.remote(fn)
    refs = [task.remote(item) for item in items]
    return ray.get([*refs, ray.remote(time.sleep).remote(10**6)])[:-1]


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
