import math
from itertools import pairwise

import torch
from fastapi import FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
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
    model.load_state_dict({key.removeprefix("module."): value for key, value in checkpoint["model"].items()})
    return model.eval(), checkpoint["sizes"][0]


class Request(BaseModel):
    inputs: list[list[float]]


def problem(rows, width):
    if not rows:
        return "there are no rows"
    for number, row in enumerate(rows):
        if len(row) != width:
            return f"row {number} has {len(row)} numbers, not {width}"
        if not all(map(math.isfinite, row)):
            return f"row {number} holds a number that is not finite"
    return None


def create_app(checkpoint_path):
    app = FastAPI()
    model, width, why = None, 0, ""
    try:
        model, width = load(checkpoint_path)
    except Exception as error:
        why = f"the checkpoint cannot be used: {type(error).__name__}: {error}"

    @app.exception_handler(RequestValidationError)
    def refused(request, error):
        found = [{"loc": each["loc"], "msg": each["msg"]} for each in error.errors()]
        return JSONResponse({"detail": found}, status_code=422)

    @app.get("/health")
    def health():
        return {"status": "alive"}

    @app.get("/ready")
    def ready():
        if model is None:
            raise HTTPException(503, why)
        return {"status": "ready"}

    @app.post("/predict")
    def predict(request: Request):
        if model is None:
            raise HTTPException(503, why)
        wrong = problem(request.inputs, width)
        if wrong:
            raise HTTPException(422, wrong)
        with torch.inference_mode():
            predictions = model(torch.tensor(request.inputs))
        return {"predictions": predictions.tolist()}

    return app
