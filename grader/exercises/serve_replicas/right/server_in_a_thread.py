"""uvicorn in a thread, which then handles no signals; another one loads, and the main thread waits for SIGTERM and drains."""

import signal
import sys
import threading
import time
from itertools import pairwise

import torch
import uvicorn
from fastapi import FastAPI, Response
from torch import nn


def network(sizes):
    layers = []
    for wide, out in pairwise(sizes[:-1]):
        layers += [nn.Linear(wide, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


app = FastAPI()
lock = threading.Lock()
state = {"model": None, "open": True, "busy": 0}


@app.get("/health")
def health():
    return {}


@app.get("/ready")
def ready(response: Response):
    response.status_code = 200 if state["model"] is not None and state["open"] else 503
    return {"ready": response.status_code == 200}


@app.post("/predict")
def predict(body: dict[str, list[list[float]]], response: Response):
    with lock:
        if state["model"] is None or not state["open"]:
            response.status_code = 503
            return {"error": "not ready"}
        state["busy"] += 1
    try:
        with torch.inference_mode():
            return {"predictions": state["model"](torch.tensor(body["inputs"])).tolist()}
    finally:
        with lock:
            state["busy"] -= 1


def load(path):
    try:
        checkpoint = torch.load(path, weights_only=True)
        model = network(checkpoint["sizes"])
        model.load_state_dict(checkpoint["model"])
        state["model"] = model.eval()
    except Exception as error:
        print(error, file=sys.stderr)


def serve_replica(checkpoint_path, port):
    term = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: term.set())
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    threading.Thread(target=load, args=(checkpoint_path,), daemon=True).start()
    while not term.wait(0.05):
        pass
    with lock:
        state["open"] = False
    while state["busy"]:
        time.sleep(0.02)
    server.should_exit = True
    thread.join()
    sys.exit(0)


def pod(image, port, start_seconds, load_seconds, request_seconds, notice_seconds):
    http = {"port": port}
    container = {
        "name": "replica",
        "image": image,
        "ports": [{"containerPort": port}, {"containerPort": 9090, "name": "metrics"}],
        "startupProbe": {"httpGet": {**http, "path": "/health"}, "initialDelaySeconds": start_seconds},
        "livenessProbe": {"httpGet": {**http, "path": "/health"}, "timeoutSeconds": 3},
        "readinessProbe": {"httpGet": {**http, "path": "/ready"}, "failureThreshold": 1},
        "lifecycle": {"preStop": {"exec": {"command": ["bash", "-c", f"echo ending; sleep {notice_seconds}; true"]}}},
    }
    grace = 30 + notice_seconds + request_seconds
    spec = {"containers": [container], "terminationGracePeriodSeconds": grace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "replica.models"}, "spec": spec}
