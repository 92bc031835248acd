"""No framework: http.server with a thread for each request and a condition variable; probes by a named port, preStop sleep."""

import json
import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from math import ceil

import torch
from torch import nn


def network(sizes):
    layers = []
    for wide, out in pairwise(sizes[:-1]):
        layers += [nn.Linear(wide, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class State:
    """What the replica is doing. All changes are under one condition."""

    def __init__(self):
        self.changed = threading.Condition(threading.RLock())
        self.model, self.draining, self.flying = None, False, 0

    def enter(self):
        """The model, if a request may come in now."""
        with self.changed:
            if self.draining or self.model is None:
                return None
            self.flying += 1
            return self.model

    def leave(self):
        with self.changed:
            self.flying -= 1
            self.changed.notify_all()

    def drain(self):
        with self.changed:
            self.draining = True
            self.changed.notify_all()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, port, state):
        self.state = state
        super().__init__(("127.0.0.1", port), Handler)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        state = self.server.state
        if self.path == "/health":
            self.answer(200, {"alive": True})
        elif self.path == "/ready":
            good = state.model is not None and not state.draining
            self.answer(200 if good else 503, {"ready": good})
        else:
            self.answer(404, {})

    def do_POST(self):
        model = self.server.state.enter()
        if model is None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            return self.answer(503, {"detail": "not ready"})
        try:
            rows = json.loads(self.rfile.read(int(self.headers["content-length"])))["inputs"]
            with torch.no_grad():
                self.answer(200, {"predictions": model(torch.tensor(rows, dtype=torch.float32)).tolist()})
        finally:
            self.server.state.leave()


def load(path, state):
    try:
        saved = torch.load(path, weights_only=True)
        model = network(saved["sizes"])
        model.load_state_dict(saved["model"])
        model.eval()
    except Exception as error:
        print("no model:", repr(error), flush=True)
        return
    state.model = model


def serve_replica(checkpoint_path: str, port: int) -> None:
    state = State()
    signal.signal(signal.SIGTERM, lambda *_: state.drain())
    server = Server(port, state)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    threading.Thread(target=load, args=(checkpoint_path, state), daemon=True).start()
    with state.changed:
        while not (state.draining and state.flying == 0):
            state.changed.wait(0.1)
    server.shutdown()
    server.server_close()


def pod(image, port, start_seconds, load_seconds, request_seconds, notice_seconds):
    def probe(path, **more):
        return dict(httpGet=dict(path=path, port="http", scheme="HTTP"), timeoutSeconds=1, **more)

    container = dict(
        name="replica",
        image=image,
        ports=[dict(name="http", containerPort=port, protocol="TCP")],
        startupProbe=probe("/health", periodSeconds=1, failureThreshold=start_seconds + 1),
        livenessProbe=probe("/health", periodSeconds=5, failureThreshold=6),
        readinessProbe=probe("/ready", periodSeconds=2, failureThreshold=1),
    )
    if notice_seconds:
        container["lifecycle"] = dict(preStop=dict(sleep=dict(seconds=notice_seconds)))
    grace = ceil(1.1 * (notice_seconds + request_seconds)) + 2
    return dict(
        apiVersion="v1",
        kind="Pod",
        metadata=dict(name="replica"),
        spec=dict(containers=[container], terminationGracePeriodSeconds=grace),
    )
