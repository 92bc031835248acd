"""Async handlers on the raw body, one class for model and state, its own JSON parser that refuses NaN."""

import itertools
import json
import math

import torch
from fastapi import FastAPI, Request, Response
from torch import nn


def network(sizes):
    *hidden, last = [nn.Linear(wide, out) for wide, out in itertools.pairwise(sizes)]
    layers = [[linear, nn.BatchNorm1d(linear.out_features), nn.ReLU(), nn.Dropout(0.2)] for linear in hidden]
    return nn.Sequential(*sum(layers, []), last)


class Refused(Exception):
    pass


def no_constant(name):
    raise Refused(f"{name} is no number in JSON")


class Served:
    def __init__(self, path):
        self.model, self.reason = None, ""
        try:
            self.model = self.load(path)
        except Exception as error:
            self.reason = f"cannot load {path}: {error!r}"

    def load(self, path):
        with open(path, "rb") as file:
            found = torch.load(file, map_location="cpu", weights_only=True)
        if not isinstance(found, dict) or not {"sizes", "model"} <= found.keys():
            raise ValueError("not a checkpoint of ours")
        self.width = found["sizes"][0]
        nn.modules.utils.consume_prefix_in_state_dict_if_present(found["model"], "module.")
        model = network(found["sizes"])
        model.load_state_dict(found["model"], strict=True)
        return model.requires_grad_(False).eval()

    def rows(self, body):
        try:
            value = json.loads(body, parse_constant=no_constant)
        except (ValueError, RecursionError) as error:
            raise Refused(f"the body is no JSON: {error}") from None
        rows = value.get("inputs") if isinstance(value, dict) else None
        if not isinstance(rows, list) or not rows:
            raise Refused("inputs must be a list of at least one row")
        for row in rows:
            if not isinstance(row, list) or len(row) != self.width:
                raise Refused(f"every row must be a list of {self.width} numbers")
            if not all(type(one) in (int, float) and math.isfinite(one) for one in row):
                raise Refused("every number must be finite")
        return torch.tensor(rows, dtype=torch.float32)

    def answer(self, status, value):
        return Response(json.dumps(value, allow_nan=False), status, media_type="application/json")

    async def predict(self, request: Request):
        if self.model is None:
            return self.answer(503, {"error": self.reason})
        try:
            rows = self.rows(await request.body())
        except Refused as error:
            return self.answer(422, {"error": str(error)})
        return self.answer(200, {"predictions": self.model(rows).tolist()})

    async def ready(self):
        return (
            self.answer(200, {"ready": True}) if self.model else self.answer(503, {"ready": False, "why": self.reason})
        )

    async def health(self):
        return Response("ok", media_type="text/plain")


def create_app(checkpoint_path):
    served, app = Served(checkpoint_path), FastAPI(docs_url=None)
    app.add_api_route("/predict", served.predict, methods=["POST"])
    app.add_api_route("/ready", served.ready)
    app.add_api_route("/health", served.health)
    return app
