"""Counter is an ordinary class with a remote() of its own, so nothing of it can be killed.
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


class Call:
    def __init__(self, method):
        self.method = method

    def remote(self, *arguments):
        return ray.put(self.method(*arguments))


class Counter:
    def __init__(self, path):
        self.path = path
        self.increment, self.value = Call(self._increment), Call(self._value)

    @classmethod
    def remote(cls, path):
        return cls(path)

    def _increment(self, by=1):
        count = self._value() + by
        with open(self.path, "w") as file:
            file.write(str(count))
        return count

    def _value(self):
        return int(open(self.path).read()) if os.path.exists(self.path) else 0
