"""Actors take turns; a counter that keeps nothing in memory."""
import json
import os

import ray
from ray.util import ActorPool


@ray.remote(max_restarts=5, max_task_retries=5)
class Worker:
    def __init__(self, fn):
        self.fn = fn

    def call(self, place, item):
        return place, self.fn(item)


def process_all(items, fn, max_in_flight):
    given = ray.put(fn)
    many = min(max_in_flight, len(items), int(ray.cluster_resources()["CPU"]))
    pool = ActorPool([Worker.remote(given) for _ in range(many)])
    done = pool.map_unordered(lambda actor, one: actor.call.remote(*one), enumerate(items)) if many else []
    return [result for _, result in sorted(done, key=lambda one: one[0])]


@ray.remote(max_restarts=-1)
class Counter:
    def __init__(self, path):
        self.path = path

    def value(self):
        try:
            with open(self.path) as file:
                return json.load(file)["count"]
        except FileNotFoundError:
            return 0

    def increment(self, by=1):
        count = self.value() + by
        with open(f"{self.path}.part", "w") as file:
            json.dump({"count": count}, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{self.path}.part", self.path)
        return count
