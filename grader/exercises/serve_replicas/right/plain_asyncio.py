"""HTTP by hand on asyncio.start_server, and a batch of all requests that wait when the model is free."""

import asyncio
import json
import signal
import threading
from itertools import pairwise

import torch
from torch import nn


def network(sizes):
    layers = []
    for wide, out in pairwise(sizes[:-1]):
        layers += [nn.Linear(wide, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Replica:
    def __init__(self, path):
        self.path = path
        self.model = None
        self.ending = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self.queue = asyncio.Queue()
        self.open = set()

    def load(self, loop, loaded):
        try:
            checkpoint = torch.load(self.path, weights_only=True, mmap=True)
            model = network(checkpoint["sizes"])
            model.load_state_dict(checkpoint["model"])
            loop.call_soon_threadsafe(loaded.set_result, model.requires_grad_(False).eval())
        except Exception as error:
            print("no model:", error)

    async def work(self):
        loop = asyncio.get_running_loop()
        loaded = loop.create_future()
        threading.Thread(target=self.load, args=(loop, loaded), daemon=True).start()
        self.model = await loaded
        while True:
            batch = [await self.queue.get()]
            while not self.queue.empty():
                batch.append(self.queue.get_nowait())
            rows = torch.cat([rows for rows, _ in batch])
            answers = await asyncio.to_thread(self.model, rows)
            for (rows, answer), part in zip(batch, answers.split([len(rows) for rows, _ in batch]), strict=True):
                answer.set_result(part.tolist())

    async def answer(self, method, path, body):
        if (method, path) == ("GET", "/health"):
            return "200 OK", {"alive": True}
        if self.ending.is_set() or self.model is None:
            return "503 Service Unavailable", {"ready": False}
        if (method, path) == ("GET", "/ready"):
            return "200 OK", {"ready": True}
        future = asyncio.get_running_loop().create_future()
        self.queue.put_nowait((torch.tensor(json.loads(body)["inputs"]), future))
        return "200 OK", {"predictions": await future}

    async def client(self, reader, writer):
        self.open.add(writer)
        self.idle.clear()
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            method, path, _ = head[0].split()
            fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(fields.get("content-length", 0)))
            status, value = await self.answer(method, path, body)
            text = json.dumps(value).encode()
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() + text)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.open.discard(writer)
            if not self.open:
                self.idle.set()

    async def run(self, port):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.ending.set)
        server = await asyncio.start_server(self.client, "127.0.0.1", port)
        worker = asyncio.create_task(self.work())
        await self.ending.wait()
        await self.idle.wait()
        server.close()
        await server.wait_closed()
        worker.cancel()


def serve_replica(checkpoint_path, port):
    async def main():
        await Replica(checkpoint_path).run(port)

    asyncio.run(main())


TEMPLATE = """
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "replica", "annotations": {"team": "serving"}},
 "spec": {"restartPolicy": "Always", "containers": [
  {"name": "log", "image": "registry.example.com/log:1"},
  {"name": "replica", "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
   "startupProbe": {"httpGet": {"path": "/health", "port": "web"}, "periodSeconds": 1},
   "livenessProbe": {"httpGet": {"path": "/health", "port": "web"}, "periodSeconds": 20, "failureThreshold": 2},
   "readinessProbe": {"httpGet": {"path": "/ready", "port": "web"}, "periodSeconds": 2, "failureThreshold": 1}}]}}
"""


def pod(image, port, start_seconds, load_seconds, request_seconds, notice_seconds):
    found = json.loads(TEMPLATE)
    replica = found["spec"]["containers"][1]
    replica.update(image=image, ports=[{"name": "web", "containerPort": port}])
    replica["startupProbe"]["failureThreshold"] = start_seconds + 1
    replica["lifecycle"] = {"preStop": {"sleep": {"seconds": notice_seconds}}}
    found["spec"]["terminationGracePeriodSeconds"] = notice_seconds + request_seconds + 1
    return found
