"""One replica of a small service: alive at once, ready when its model is there, and it ends in one of three ways.

    python replica.py PORT_FILE MODEL cut|close|drain [DRAIN_SECONDS]

listens on a free port of the loopback interface and writes its number to PORT_FILE. MODEL is a matrix as NumPy saves
it, and may come later. At SIGTERM: `cut` ends at once, as a program without a handler does; `close` is what uvicorn
does by itself: it listens no more, and finishes the requests that it has; `drain` first says at /ready that it is not
ready, goes on for so many seconds, and then closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np

WORK = 0.2  # seconds that a request takes, as if a device computed


def application(model: Path, state: dict[str, Any]) -> Any:
    """Answers /health, /ready, /predict, and /hang, after which it answers nothing. `state` may hold "draining"."""
    from fastapi import FastAPI, HTTPException

    state["why"] = "the model is not there yet"

    async def wait_for_it() -> None:
        while "model" not in state:
            try:
                state["model"] = await asyncio.to_thread(np.load, model, allow_pickle=False)
            except FileNotFoundError:
                pass
            except Exception as error:  # whatever is wrong with the file: say so at /ready, and stay alive
                state["why"] = f"the model cannot be loaded: {error}"[:200]
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
        if "model" not in state:
            raise HTTPException(503, state["why"])
        if state.get("draining"):
            raise HTTPException(503, "this replica is about to end")
        return {"ready": True}

    @app.post("/predict")
    def predict(body: dict[str, list[float]]) -> dict[str, Any]:  # def: in a thread of a pool
        if "model" not in state:
            raise HTTPException(503, state["why"])
        time.sleep(WORK)
        return {"scores": (np.array(body["point"]) @ state["model"]).tolist(), "process": os.getpid()}

    @app.post("/hang")
    async def hang() -> None:
        threading.Event().wait()  # in the event loop: nothing else runs from here on

    return app


def serve(port_file: Path, model: Path, ending: str, drain: float) -> None:
    import uvicorn

    state: dict[str, Any] = {}

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            if ending == "close":
                with super().capture_signals():
                    yield
                return
            signal.signal(signal.SIGTERM, signal.SIG_DFL if ending == "cut" else lambda *_: drained(self))
            yield

    def drained(server: Server) -> None:
        def close() -> None:
            time.sleep(drain)
            server.should_exit = True

        if not state.get("draining"):
            state["draining"] = True
            threading.Thread(target=close, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        part = port_file.with_suffix(".part")
        part.write_text(str(listening.getsockname()[1]))
        os.replace(part, port_file)
        Server(uvicorn.Config(application(model, state), log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]) if len(sys.argv) > 4 else 0.0)
