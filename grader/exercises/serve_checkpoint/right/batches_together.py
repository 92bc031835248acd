"""Rows of requests that come together go through the model as one batch; each request gets back its own rows."""

import asyncio
import itertools
import math

import torch
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from torch import nn


def network(sizes):
    layers = []
    for wide, out in itertools.pairwise(sizes[:-1]):
        layers += [nn.Linear(wide, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout()]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Batcher:
    """Collects for two milliseconds, or until there are 64 rows."""

    def __init__(self, model):
        self.model, self.waiting, self.timer = model, [], None

    async def __call__(self, rows):
        answer = asyncio.get_running_loop().create_future()
        self.waiting.append((rows, answer))
        if sum(len(each) for each, _ in self.waiting) >= 64:
            self.flush()
        elif self.timer is None:
            self.timer = asyncio.get_running_loop().call_later(0.002, self.flush)
        return await answer

    def flush(self):
        if self.timer is not None:
            self.timer.cancel()
        batch, self.waiting, self.timer = self.waiting, [], None
        with torch.inference_mode():
            predictions = self.model(torch.cat([rows for rows, _ in batch])).tolist()
        for rows, answer in batch:
            mine, predictions = predictions[: len(rows)], predictions[len(rows) :]
            if not answer.cancelled():
                answer.set_result(mine)


def refused(why):
    return JSONResponse({"error": why}, status_code=422)


def create_app(checkpoint_path):
    app = FastAPI()
    batcher, sizes, problem = None, None, None
    try:
        checkpoint = torch.load(checkpoint_path, map_location=torch.device("cpu"))
        sizes, state = checkpoint["sizes"], checkpoint["model"]
        model = network(sizes)
        model.load_state_dict({key.replace("module.", "", 1): value for key, value in state.items()})
        batcher = Batcher(model.train(False))
    except Exception as error:
        problem = str(error) or repr(error)

    def unready():
        return JSONResponse({"status": "unavailable", "detail": problem}, status_code=503)

    @app.get("/health")
    async def health():
        return "ok"

    @app.get("/ready")
    async def ready():
        return unready() if batcher is None else "ready"

    @app.post("/predict")
    async def predict(request: Request):
        if batcher is None:
            return unready()
        try:
            inputs = (await request.json())["inputs"]
            rows = torch.tensor(inputs, dtype=torch.float32)
        except Exception as error:
            return refused(f"inputs must be rows of numbers ({type(error).__name__})")
        if rows.dim() != 2 or rows.shape[1] != sizes[0] or not len(rows):
            return refused(f"inputs must be [n, {sizes[0]}], not {list(rows.shape)}")
        if not all(math.isfinite(one) for one in rows.flatten().tolist()):
            return refused("inputs must be finite")
        return {"predictions": await batcher(rows)}

    return app
