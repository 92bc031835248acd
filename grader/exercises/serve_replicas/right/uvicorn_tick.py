"""A subclass of uvicorn.Server whose tick looks whether anything is in flight, loading in a daemon thread."""

import asyncio
import threading
from itertools import pairwise

import torch
import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from torch import nn


def network(sizes):
    layers = []
    for wide, out in pairwise(sizes[:-1]):
        layers += [nn.Linear(wide, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Rows(BaseModel):
    inputs: list[list[float]]


class Replica:
    def __init__(self, path):
        self.path, self.model = path, None
        self.draining, self.flying = False, 0

    def load(self):
        try:
            saved = torch.load(self.path, map_location="cpu", weights_only=True)
            model = network(saved["sizes"])
            model.load_state_dict(saved["model"])
            self.model = model.eval()
        except Exception as error:
            print(f"the checkpoint cannot be used: {error!r}", flush=True)

    def compute(self, inputs):
        with torch.inference_mode():
            return self.model(torch.tensor(inputs, dtype=torch.float32)).tolist()


def application(replica):
    app = FastAPI()

    @app.get("/health")
    async def health():
        return {"alive": True}

    @app.get("/ready")
    async def ready():
        if replica.draining or replica.model is None:
            raise HTTPException(503, "draining" if replica.draining else "there is no model")
        return {"ready": True}

    @app.post("/predict")
    async def predict(rows: Rows):
        if replica.draining or replica.model is None:
            raise HTTPException(503, "draining" if replica.draining else "there is no model")
        replica.flying += 1
        try:
            return {"predictions": await asyncio.to_thread(replica.compute, rows.inputs)}
        finally:
            replica.flying -= 1

    return app


class Server(uvicorn.Server):
    def __init__(self, config, replica):
        super().__init__(config)
        self.replica = replica

    def handle_exit(self, sig, frame):
        self.replica.draining = True

    async def on_tick(self, counter):
        if self.replica.draining and self.replica.flying == 0:
            self.should_exit = True
        return await super().on_tick(counter)


def serve_replica(checkpoint_path: str, port: int) -> None:
    replica = Replica(checkpoint_path)
    threading.Thread(target=replica.load, daemon=True).start()
    config = uvicorn.Config(application(replica), host="127.0.0.1", port=port, log_level="warning")
    Server(config, replica).run()


def pod(
    image: str, port: int, start_seconds: int, load_seconds: int, request_seconds: int, notice_seconds: int
) -> dict:
    health, ready = {"path": "/health", "port": port}, {"path": "/ready", "port": port}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "model", "labels": {"app": "model"}},
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": notice_seconds + request_seconds + 5,
            "containers": [
                {
                    "name": "model",
                    "image": image,
                    "ports": [{"containerPort": port}],
                    "startupProbe": {
                        "httpGet": health,
                        "periodSeconds": 5,
                        "failureThreshold": max(1, -(-start_seconds // 5)) + 1,
                    },
                    "livenessProbe": {"httpGet": health, "periodSeconds": 10, "failureThreshold": 3},
                    "readinessProbe": {"httpGet": ready, "periodSeconds": 5},
                    "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(notice_seconds)]}}},
                }
            ],
        },
    }
