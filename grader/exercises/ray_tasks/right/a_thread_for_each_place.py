"""A thread of the driver for each place in flight; fn is put once; the counter keeps JSON and syncs the folder too."""
import json
import os
from concurrent.futures import ThreadPoolExecutor

import ray


def process_all(items, fn, max_in_flight):
    items = list(items)
    if not items:
        return []
    shared = ray.put(fn)

    @ray.remote(max_retries=-1)
    def call(function, item):
        return function(item)

    def one(item):
        return ray.get(call.remote(shared, item))

    with ThreadPoolExecutor(max_workers=min(max_in_flight, len(items))) as lanes:
        return list(lanes.map(one, items))


@ray.remote(max_restarts=-1, max_task_retries=-1)
class Counter:
    def __init__(self, path):
        self.path = os.path.abspath(path)
        if os.path.exists(self.path):
            with open(self.path) as file:
                self.count = json.load(file)["count"]
        else:
            self.count = 0

    def increment(self, by=1):
        count = self.count + by
        self._write(count)
        self.count = count
        return count

    def _write(self, count):
        temporary = f"{self.path}.{os.getpid()}"
        with open(temporary, "w") as file:
            json.dump({"count": count}, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, self.path)
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def value(self):
        return self.count
