"""http.server with a thread for each request; the main thread waits for SIGTERM, and then for the requests."""

import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import torch
from torch import nn


def network(sizes):
    layers = []
    for wide, out in pairwise(sizes[:-1]):
        layers += [nn.Linear(wide, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


def serve_replica(checkpoint_path, port):
    model = None
    ending = False
    told = threading.Event()
    changed = threading.Condition()
    in_flight = 0

    def load():
        nonlocal model
        checkpoint = torch.load(checkpoint_path, map_location="cpu", weights_only=True)
        loaded = network(checkpoint["sizes"])
        loaded.load_state_dict(checkpoint["model"], strict=True)
        loaded.eval()
        with torch.no_grad():
            loaded(torch.zeros(1, checkpoint["sizes"][0]))  # warm up
        model = loaded

    class Handler(BaseHTTPRequestHandler):
        def answer(self, status, value):
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

        def do_GET(self):
            if self.path == "/health":
                self.answer(200, {})
            elif self.path == "/ready":
                good = model is not None and not ending
                self.answer(200 if good else 503, {"ready": good})
            else:
                self.answer(404, {})

        def do_POST(self):
            nonlocal in_flight
            rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"]
            with changed:
                taken = model is not None and not ending
                in_flight += taken
            if not taken:
                return self.answer(503, {"error": "not ready"})
            try:
                with torch.no_grad():
                    found = model(torch.tensor(rows, dtype=torch.float32)).tolist()
                self.answer(200, {"predictions": found})
            finally:
                with changed:
                    in_flight -= 1
                    changed.notify_all()

    def term(number, frame):
        told.set()

    signal.signal(signal.SIGTERM, term)
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=load, daemon=True).start()
    told.wait()
    with changed:
        ending = True
        changed.wait_for(lambda: in_flight == 0)
    server.shutdown()
    server.server_close()


def pod(image, port, start_seconds, load_seconds, request_seconds, notice_seconds):
    """Without a startup probe: liveness begins when the container must listen."""

    def get(path):
        return {"httpGet": {"path": path, "port": port, "scheme": "HTTP"}, "periodSeconds": 4, "failureThreshold": 5}

    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"generateName": "replica-"},
        "spec": {
            "terminationGracePeriodSeconds": 2 * (notice_seconds + request_seconds),
            "containers": [
                {
                    "name": "r",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "ports": [{"containerPort": port}],
                    "livenessProbe": {**get("/health"), "initialDelaySeconds": start_seconds},
                    "readinessProbe": {**get("/ready"), "successThreshold": 2},
                    "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(notice_seconds + 2)]}}},
                }
            ],
        },
    }
