"""The FastAPI application of the lab on serving: alive at once, ready when the checkpoint is there and loads.

    python serve_app.py CHECKPOINT PORT_FILE

listens on a free port of the loopback interface and writes its number to PORT_FILE. The checkpoint may come later.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import torch
from spirals import network

NAP = 0.5


def load(path: Path) -> torch.nn.Module:
    """The network of a checkpoint, for answers: without the wrapper's prefix, every key in its place, no dropout."""
    state = torch.load(path, map_location="cpu", weights_only=True)["model"]
    torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    model = network()
    model.load_state_dict(state)  # strict: a key too many or too few is an error
    return model.eval()


def scores(model: torch.nn.Module, points: list[list[float]]) -> list[list[float]]:
    """The scores of each point."""
    with torch.inference_mode():
        return model(torch.tensor(points)).tolist()


def application(checkpoint: Path) -> Any:
    """Answers /health, /ready, /predict, and two ways to be busy. FastAPI reads the types of the functions below."""
    from fastapi import FastAPI, HTTPException

    there: dict[str, Any] = {"why": "no checkpoint yet"}

    async def wait_for_it() -> None:
        while "model" not in there:
            try:
                there["model"] = await asyncio.to_thread(load, checkpoint)
            except FileNotFoundError:
                pass
            except Exception as error:  # whatever is wrong with the file: say so in /ready, and stay alive
                there["why"] = f"{type(error).__name__}: the checkpoint does not fit"
            await asyncio.sleep(0.02)

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        task = asyncio.create_task(wait_for_it())
        yield
        task.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.get("/health")
    async def health() -> dict[str, bool]:
        return {"alive": True}

    @app.get("/ready")
    async def ready() -> dict[str, bool]:
        if "model" not in there:
            raise HTTPException(503, there["why"])
        return {"ready": True}

    @app.post("/predict")
    def predict(body: dict[str, list[list[float]]]) -> dict[str, list[list[float]]]:  # def: in a thread of a pool
        if "model" not in there:
            raise HTTPException(503, there["why"])
        return {"scores": scores(there["model"], body["points"])}

    @app.get("/busy/async-def")
    async def busy_in_the_loop() -> None:
        time.sleep(NAP)  # the event loop waits, too

    @app.get("/busy/def")
    def busy_in_a_thread() -> None:
        time.sleep(NAP)

    return app


def serve(checkpoint: Path, port_file: Path) -> None:
    import uvicorn

    torch.set_num_threads(1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        part = port_file.with_suffix(".part")
        part.write_text(str(listening.getsockname()[1]))
        os.replace(part, port_file)
        uvicorn.Server(uvicorn.Config(application(checkpoint), log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
