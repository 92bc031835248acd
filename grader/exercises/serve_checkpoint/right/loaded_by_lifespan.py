"""The model is loaded by the lifespan; where no such event comes, by the first request that needs it, under a lock."""

import contextlib
import itertools
import threading
from typing import Annotated

import torch
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, FiniteFloat
from torch import nn

router = APIRouter()


def network(sizes):
    model = nn.Sequential()
    for wide, out in itertools.pairwise(sizes[:-1]):
        model.extend([nn.Linear(wide, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(0.5)])
    return model.append(nn.Linear(*sizes[-2:]))


class Inputs(BaseModel):
    inputs: Annotated[list[Annotated[list[FiniteFloat], Field(min_length=1)]], Field(min_length=1)]


class Predictions(BaseModel):
    predictions: list[list[float]]


class Loader:
    """Tries once, whoever asks first."""

    def __init__(self, path):
        self.path, self.lock, self.tried = path, threading.Lock(), False
        self.model, self.sizes, self.error = None, [], None

    def __call__(self):
        with self.lock:
            if not self.tried:
                self.tried = True
                try:
                    self.load()
                except Exception as error:
                    self.error = error
        return self

    def load(self):
        found = torch.load(str(self.path), weights_only=True, mmap=True)
        sizes, state = found["sizes"], found["model"]
        if all(key.startswith("module.") for key in state):
            state = {key[len("module.") :]: value for key, value in state.items()}
        with torch.device("meta"):
            model = network(sizes)
        model.load_state_dict(state, assign=True)
        model.eval()
        self.model, self.sizes = model, sizes


def loaded(request: Request):
    loader = request.app.state.loader()
    if loader.model is None:
        raise HTTPException(
            503, {"ready": False, "reason": f"{type(loader.error).__name__} in {loader.path}: {loader.error}"}
        )
    return loader


Loaded = Annotated[Loader, Depends(loaded)]


@router.get("/health")
async def health():
    return {}


@router.get("/ready")
def ready(loader: Loaded):
    return {"ready": True, "sizes": loader.sizes}


@router.post("/predict", response_model=Predictions)
def predict(body: Inputs, loader: Loaded):
    for number, row in enumerate(body.inputs):
        if len(row) != loader.sizes[0]:
            raise HTTPException(422, f"row {number}: {len(row)} numbers, expected {loader.sizes[0]}")
    with torch.no_grad():
        return Predictions(predictions=loader.model(torch.tensor(body.inputs, dtype=torch.float32)).tolist())


def without_input(request, error):
    found = [{name: value for name, value in each.items() if name not in ("input", "ctx")} for each in error.errors()]
    return JSONResponse(jsonable_encoder({"detail": found}), 422)


@contextlib.asynccontextmanager
async def lifespan(app):
    app.state.loader()
    yield


def create_app(checkpoint_path):
    app = FastAPI(lifespan=lifespan, exception_handlers={RequestValidationError: without_input})
    app.state.loader = Loader(checkpoint_path)
    app.include_router(router)
    return app
