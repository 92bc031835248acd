"""ray.wait over a dict from reference to index; the counter is a text file, replaced as a whole."""
import os

import ray


def process_all(items, fn, max_in_flight):
    items = list(items)
    task = ray.remote(max_retries=-1)(fn)  # serialised once, at its first submission
    results = [None] * len(items)
    place = {}
    following = 0
    while following < len(items) or place:
        while following < len(items) and len(place) < max_in_flight:
            place[task.remote(items[following])] = following
            following += 1
        done, _ = ray.wait(list(place), num_returns=1)
        for ref in done:
            results[place.pop(ref)] = ray.get(ref)
    return results


@ray.remote(max_restarts=-1, max_task_retries=-1)
class Counter:
    def __init__(self, path):
        self.path = str(path)

    def value(self):
        try:
            with open(self.path) as file:
                return int(file.read())
        except FileNotFoundError:
            return 0

    def increment(self, by=1):
        count = self.value() + by
        with open(self.path + ".new", "w") as file:
            file.write(str(count))
            file.flush()
            os.fsync(file.fileno())
        os.replace(self.path + ".new", self.path)
        return count
