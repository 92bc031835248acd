"""Pydantic's own types, a service class, an APIRouter, functional_call, dependency injection."""
from itertools import pairwise
from typing import Annotated

import torch
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Response, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from torch import nn
from torch.func import functional_call


def network(sizes):
    layers = []
    for wide, out in pairwise(sizes[:-1]):
        layers += [nn.Linear(wide, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


Row = Annotated[list[FiniteFloat], Field(min_length=1)]


class Question(BaseModel):
    model_config = ConfigDict(strict=True)
    inputs: Annotated[list[Row], Field(min_length=1)]


class Answer(BaseModel):
    predictions: list[list[float]]


class Service:
    def __init__(self, path):
        self.reason = None
        try:
            content = torch.load(path, weights_only=True, map_location=torch.device("cpu"))
            sizes, state = content["sizes"], content["model"]
            nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
            with torch.device("meta"):
                self.skeleton = network(sizes).eval()
            expected = self.skeleton.state_dict()
            if expected.keys() != state.keys():
                raise KeyError(f"keys differ: {sorted(expected.keys() ^ state.keys())}")
            for name, tensor in expected.items():
                if tensor.shape != state[name].shape:
                    raise ValueError(f"{name} has shape {tuple(state[name].shape)}, not {tuple(tensor.shape)}")
            self.state, self.width = dict(state), sizes[0]
        except Exception as error:
            self.reason = f"cannot use {path}: {error!r}"

    @torch.inference_mode()
    def __call__(self, rows):
        return functional_call(self.skeleton, self.state, (torch.as_tensor(rows, dtype=torch.float32),))


def create_app(checkpoint_path: str) -> FastAPI:
    service = Service(checkpoint_path)
    router = APIRouter()

    def available():
        if service.reason is not None:
            raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, service.reason)
        return service

    @router.post("/predict")
    def predict(question: Question) -> Answer:
        model = available()
        if any(len(row) != model.width for row in question.inputs):
            raise HTTPException(422, f"a row has {model.width} values")
        return Answer(predictions=model(question.inputs).tolist())

    @router.get("/health", status_code=200)
    def health():
        return {}

    @router.get("/ready")
    def ready(model: Annotated[Service, Depends(available)]):
        return Response(status_code=200)

    app = FastAPI()
    app.include_router(router)

    @app.exception_handler(RequestValidationError)
    async def refuse(request, error):
        return PlainTextResponse("the inputs are not rows of numbers", 422)

    return app
