"""What was written stays in a buffer that is lost with the process.
check: restarts
kind: wrong_result
"""
import os

import ray


def process_all(items, fn, max_in_flight):
    task = ray.remote(fn)
    results = [None] * len(items)
    place = {}
    waiting = list(enumerate(items))[::-1]
    while waiting or place:
        while waiting and len(place) < max_in_flight:
            index, item = waiting.pop()
            place[task.remote(item)] = index
        done, _ = ray.wait(list(place), num_returns=1)
        for ref in done:
            results[place.pop(ref)] = ray.get(ref)
    return results


@ray.remote(max_restarts=-1, max_task_retries=-1)
class Counter:
    def __init__(self, path):
        self.count = int((open(path).read() if os.path.exists(path) else "").split("\n")[-2:-1][0]) if os.path.exists(path) and os.path.getsize(path) else 0
        self.file = open(path, "a")

    def increment(self, by=1):
        self.count += by
        self.file.write(f"{self.count}\n")
        return self.count

    def value(self):
        return self.count
