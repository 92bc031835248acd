"""A uvicorn.Server of its own that handles SIGTERM; the checkpoint is loaded in a thread that the lifespan starts."""

import asyncio
import contextlib
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


def load(path):
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    model = network(checkpoint["sizes"])
    model.load_state_dict(checkpoint["model"])
    return model.eval()


class Request(BaseModel):
    inputs: list[list[float]]


class State:
    model = None
    why = "the checkpoint is being loaded"
    draining = False
    in_flight = 0


def create_app(checkpoint_path, state):
    def fetch():
        try:
            state.model = load(checkpoint_path)
        except Exception as error:
            state.why = f"the checkpoint cannot be used: {error}"

    @contextlib.asynccontextmanager
    async def lifespan(app):
        threading.Thread(target=fetch, daemon=True).start()
        yield

    app = FastAPI(lifespan=lifespan)

    def refuse_unless_ready():
        if state.draining:
            raise HTTPException(503, "this replica is about to end")
        if state.model is None:
            raise HTTPException(503, state.why)

    @app.get("/health")
    async def health():
        return {"alive": True}

    @app.get("/ready")
    async def ready():
        refuse_unless_ready()
        return {"ready": True}

    @app.post("/predict")
    async def predict(request: Request):
        refuse_unless_ready()
        state.in_flight += 1
        try:
            return {"predictions": await asyncio.to_thread(forward, request.inputs)}
        finally:
            state.in_flight -= 1

    def forward(rows):
        with torch.inference_mode():
            return state.model(torch.tensor(rows)).tolist()

    return app


class Server(uvicorn.Server):
    state: State

    def handle_exit(self, sig, frame):
        self.state.draining = True

    async def on_tick(self, counter):
        if self.state.draining and not self.state.in_flight:
            self.should_exit = True
        return await super().on_tick(counter)


def serve(checkpoint_path, port):
    state = State()
    server = Server(uvicorn.Config(create_app(checkpoint_path, state), port=port, log_level="warning"))
    server.state = state
    server.run()


def pod(image, port, start_seconds, load_seconds, request_seconds, notice_seconds):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "model", "labels": {"app": "model"}},
        "spec": {
            "terminationGracePeriodSeconds": notice_seconds + request_seconds + 10,
            "containers": [
                {
                    "name": "server",
                    "image": image,
                    "ports": [{"name": "http", "containerPort": port}],
                    "startupProbe": {
                        "httpGet": {"path": "/health", "port": "http"},
                        "periodSeconds": 5,
                        "failureThreshold": start_seconds // 5 + 4,
                    },
                    "livenessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10},
                    "readinessProbe": {
                        "httpGet": {"path": "/ready", "port": "http"},
                        "periodSeconds": 5,
                        "failureThreshold": 2,
                    },
                    "lifecycle": {"preStop": {"sleep": {"seconds": notice_seconds}}},
                }
            ],
        },
    }
