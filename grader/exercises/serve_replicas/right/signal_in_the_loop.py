"""The event loop hears SIGTERM, a middleware counts what is in flight, and the lifespan begins to load."""

import asyncio
import contextlib
import math
import signal
import threading
from itertools import pairwise

import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from torch import nn


def network(sizes):
    layers = []
    for wide, out in pairwise(sizes[:-1]):
        layers += [nn.Linear(wide, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


def load(path):
    checkpoint = torch.load(path, weights_only=True)
    model = network(checkpoint["sizes"]).eval()
    model.load_state_dict(checkpoint["model"])
    return model


def serve_replica(checkpoint_path, port):
    models, tasks, ending, busy = [], [], asyncio.Event(), 0

    def fetch():
        with contextlib.suppress(Exception):
            models.append(load(checkpoint_path))

    @contextlib.asynccontextmanager
    async def lifespan(app):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
        threading.Thread(target=fetch, daemon=True).start()
        tasks.append(asyncio.create_task(stop()))
        yield
        for task in tasks:
            task.cancel()

    async def stop():
        await ending.wait()
        while busy:
            await asyncio.sleep(0.02)
        server.should_exit = True

    app = FastAPI(lifespan=lifespan)

    @app.middleware("http")
    async def gate(request: Request, go_on):
        nonlocal busy
        if request.url.path == "/health":
            return await go_on(request)
        if ending.is_set() or not models:
            return JSONResponse({"why": "ending" if ending.is_set() else "no model yet"}, 503)
        busy += 1
        try:
            return await go_on(request)
        finally:
            busy -= 1

    @app.get("/health")
    def health():
        return "alive"

    @app.get("/ready")
    def ready():
        return "ready"

    @app.post("/predict")
    def predict(body: dict[str, list[list[float]]]):
        with torch.inference_mode():
            return {"predictions": models[0](torch.tensor(body["inputs"])).tolist()}

    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="error"))
    server.run()


def probe(path, port, **more):
    return {"httpGet": {"path": path, "port": port}, **more}


def pod(image, port, start_seconds, load_seconds, request_seconds, notice_seconds):
    replica = dict(
        name="replica",
        image=image,
        command=["python", "serve.py"],
        ports=[dict(containerPort=port, name="http", protocol="TCP")],
        startupProbe=probe("/health", "http", failureThreshold=math.ceil(start_seconds / 10)),
        livenessProbe=probe("/health", "http", timeoutSeconds=5, periodSeconds=15),
        readinessProbe=probe("/ready", "http"),
        lifecycle=dict(preStop=dict(exec=dict(command=["/bin/sh", "-c", f"sleep {notice_seconds}"]))),
        resources=dict(requests=dict(cpu="500m", memory="2Gi"), limits=dict(memory="4Gi")),
    )
    spec = dict(
        restartPolicy="Always",
        terminationGracePeriodSeconds=notice_seconds + request_seconds,
        containers=[replica],
    )
    return dict(apiVersion="v1", kind="Pod", metadata=dict(name="replica-0", namespace="models"), spec=spec)
