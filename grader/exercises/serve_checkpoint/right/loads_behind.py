"""A thread loads the model while the server already answers; a lock lets one prediction run at a time."""

import itertools
import math
import threading

import numpy as np
import torch
from fastapi import Body, FastAPI, HTTPException, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from torch import nn


def network(sizes):
    layers = []
    for wide, out in itertools.pairwise(sizes[:-1]):
        layers += [nn.Linear(wide, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Model:
    def __init__(self, path):
        self.layers, self.why, self.one = None, "the model is being loaded", threading.Lock()
        threading.Thread(target=self.load, args=(path,), daemon=True).start()

    def load(self, path):
        try:
            checkpoint = torch.load(path, weights_only=True)
            state = {key.split("module.", 1)[-1]: value for key, value in checkpoint["model"].items()}
            layers = network(checkpoint["sizes"])
            layers.load_state_dict(state)
            for parameter in layers.parameters():
                parameter.requires_grad = False
            self.width, self.layers = checkpoint["sizes"][0], layers.eval()
        except Exception as error:
            self.why = f"{type(error).__name__}: {error}"

    def check(self):
        if self.layers is None:
            raise HTTPException(status_code=503, detail={"reason": self.why})

    def __call__(self, rows):
        with self.one:
            return self.layers(torch.from_numpy(rows)).numpy().astype(float).tolist()


def create_app(checkpoint_path):
    app = FastAPI(title="predictions")
    model = Model(checkpoint_path)

    @app.exception_handler(RequestValidationError)
    async def invalid(request, error):
        return PlainTextResponse("; ".join(each["msg"] for each in error.errors()), 422)

    @app.get("/health", status_code=200)
    def health():
        return Response()

    @app.get("/ready")
    def ready():
        model.check()
        return True

    @app.post("/predict")
    def predict(inputs: list[list[float]] = Body(embed=True, min_length=1)):
        model.check()
        if any(len(row) != model.width for row in inputs):
            raise HTTPException(422, f"rows must have {model.width} numbers")
        if not all(math.isfinite(one) for row in inputs for one in row):
            raise HTTPException(422, "NaN and infinities are not taken")
        return {"predictions": model(np.array(inputs, dtype=np.float32)), "rows": len(inputs)}

    return app
