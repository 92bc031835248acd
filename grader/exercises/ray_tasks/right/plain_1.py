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
