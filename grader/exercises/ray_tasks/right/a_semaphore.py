"""asyncio in the driver: a semaphore has as many places as there may be tasks, and every task is awaited."""
import asyncio
import json
import pathlib

import ray


def process_all(items, fn, max_in_flight):
    task = ray.remote(fn).options(max_retries=-1)

    async def gather():
        places = asyncio.Semaphore(max_in_flight)

        async def one(item):
            async with places:
                return await task.remote(item)

        return await asyncio.gather(*map(one, items))

    return list(asyncio.run(gather()))


@ray.remote(max_restarts=-1, max_task_retries=3)
class Counter:
    def __init__(self, path):
        self.file = pathlib.Path(path)

    def value(self):
        return json.loads(self.file.read_text()) if self.file.exists() else 0

    def increment(self, by=1):
        now = self.value() + by
        whole = self.file.with_name(self.file.name + ".new")
        whole.write_text(json.dumps(now))
        whole.replace(self.file)  # whole, or not at all
        return now
