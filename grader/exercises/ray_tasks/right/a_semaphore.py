"""asyncio in the driver: a semaphore has as many places as there may be tasks, and every task is awaited."""
import asyncio
import os

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
    def __init__(self, path: str) -> None:
        self.path = path
        if not os.path.exists(path):
            self._store(0)

    def _store(self, count: int) -> None:
        with open(self.path, "w") as file:
            file.write(f"{count:d}")

    def increment(self, by: int = 1) -> int:
        self._store(self.value() + by)
        return self.value()

    def value(self) -> int:
        with open(self.path) as file:
            return int(file.read())
