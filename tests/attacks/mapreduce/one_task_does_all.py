"""Has one worker do all in one task.

family: sharing_behind_the_network
tries: points
earned: 0
ends: too_few_bytes
"""

def everything(map_fn, reduce_fn, inputs):
    groups = {}
    for item in inputs:
        for key, value in map_fn(item):
            groups.setdefault(key, []).append(value)
    return {key: reduce_fn(key, values) for key, values in groups.items()}


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    while True:
        workers.submit(everything, map_fn, reduce_fn, inputs)
        event = workers.wait_any(10)
        if event is not None and event.kind == "done":
            return event.value
