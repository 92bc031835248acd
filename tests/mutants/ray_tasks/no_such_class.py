"""There is no Counter.
check: counts
kind: missing_function
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
