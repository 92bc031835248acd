"""An actor for each place in flight, and none comes back when it is killed.
check: retried
kind: crash
only: yes
"""
import os

import ray


@ray.remote
class Pool:
    def call(self, fn, item):
        return fn(item)


def process_all(items, fn, max_in_flight):
    given = ray.put(fn)
    idle = [Pool.options(num_cpus=0).remote() for _ in range(min(max_in_flight, len(items)))]
    results = [None] * len(items)
    place = {}
    waiting = list(enumerate(items))[::-1]
    while waiting or place:
        while waiting and idle:
            index, item = waiting.pop()
            actor = idle.pop()
            place[actor.call.remote(given, item)] = index, actor
        done, _ = ray.wait(list(place))
        index, actor = place.pop(done[0])
        results[index] = ray.get(done[0])
        idle.append(actor)
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
