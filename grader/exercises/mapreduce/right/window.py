"""Hands out no more tasks than there are workers; when none is left, what is open is started again on idle ones."""

import struct
from collections import Counter, deque


def bucket(key, reducers):
    data = repr(key).encode()
    state = 14695981039346656037  # FNV-1a
    for byte in data:
        state = (state ^ byte) * 1099511628211 % 2**64
    return struct.unpack("<I", struct.pack("<Q", state)[:4])[0] % reducers


def do_map(n, map_fn, combine_fn, item, reducers):
    held = {}
    for key, value in map_fn(item):
        held.setdefault(key, []).append(value)
    if combine_fn:
        held = {key: [combine_fn(key, values)] for key, values in held.items()}
    files = [[] for _ in range(reducers)]
    for key in sorted(held, key=repr):
        files[bucket(key, reducers)].append((key, held[key]))
    return n, files


def do_reduce(n, reduce_fn, files):
    groups = {}
    for file in files:
        for key, values in file:
            groups.setdefault(key, [])
            groups[key] += values
    return n, {key: reduce_fn(key, groups[key]) for key in groups}


def phase(workers, fn, calls, started):
    """What every call returned. `started` counts the copies of each (fn, number) that are out, of all phases."""
    pending, results = deque(range(len(calls))), [None] * len(calls)
    of = started.setdefault("of", {})
    out = started.setdefault("out", Counter())
    while any(result is None for result in results):
        while sum(out.values()) < len(workers):
            if pending:
                number = pending.popleft()
            else:
                open_ones = [n for n, result in enumerate(results) if result is None]
                number = min(open_ones, key=lambda n: out[fn, n])
            of[workers.submit(fn, number, *calls[number])] = fn, number
            out[fn, number] += 1
        event = workers.wait_any()
        which = of.pop(event.task)
        out[which] -= 1
        if event.kind == "failed":
            raise RuntimeError(event.value)
        if event.kind == "died" and which[0] is fn and results[which[1]] is None:
            pending.appendleft(which[1])
        if event.kind == "done" and which[0] is fn:
            number, value = event.value
            results[number] = [value]
    return [result[0] for result in results]


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    started = {}
    files = phase(workers, do_map, [(map_fn, combine_fn, item, reducers) for item in inputs], started)
    by_reducer = [[of_map[r] for of_map in files] for r in range(reducers)]
    parts = phase(workers, do_reduce, [(reduce_fn, own) for own in by_reducer], started)
    return {key: value for part in parts for key, value in part.items()}
