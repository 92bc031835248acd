"""Works in rounds: submit what has no result, hear all of it or nothing for a while, and begin the next round."""

from collections import defaultdict
from functools import reduce

PATIENCE = 4.0


def place(key, reducers):
    text = repr(key)
    return reduce(lambda seen, letter: (seen * 31 + ord(letter)) % 1_000_003, text, 7) % reducers


def work(attempt, what, *given):
    """The one function that workers know; `attempt` is for whoever reads a log."""
    return attempt, {"map": map_split, "reduce": reduce_part}[what](*given)


def map_split(map_fn, combine_fn, item, reducers):
    pairs = defaultdict(list)
    for key, value in map_fn(item):
        pairs[key].append(value)
    if combine_fn is not None:
        return [(place(key, reducers), key, combine_fn(key, values)) for key, values in pairs.items()]
    return [(place(key, reducers), key, value) for key, values in pairs.items() for value in values]


def reduce_part(reduce_fn, groups):
    return {key: reduce_fn(key, values) for key, values in groups.items()}


def in_rounds(workers, calls):
    results, attempt = {}, 0
    while missing := [index for index in range(len(calls)) if index not in results]:
        attempt += 1
        tasks = {workers.submit(work, attempt, *calls[index]): index for index in missing}
        waiting = set(tasks)
        while waiting and (event := workers.wait_any(PATIENCE)) is not None:
            waiting.discard(event.task)
            if event.kind == "failed":
                raise RuntimeError(event.value)
            if event.kind == "done" and event.task in tasks:
                results[tasks[event.task]] = event.value[1]
    return [results[index] for index in range(len(calls))]


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    groups = [defaultdict(list) for _ in range(reducers)]
    for triples in in_rounds(workers, [("map", map_fn, combine_fn, item, reducers) for item in inputs]):
        for reducer, key, value in triples:
            groups[reducer][key].append(value)
    result = defaultdict(int)
    for part in in_rounds(workers, [("reduce", reduce_fn, dict(own)) for own in groups]):
        result.update(part)
    return result
