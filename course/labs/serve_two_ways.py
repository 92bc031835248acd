"""One checkpoint served by FastAPI on uvicorn and by Ray Serve: the same answers, and what batches bring.

    python serve_two_ways.py CHECKPOINT [--json]

where CHECKPOINT is what `train_and_watch.py` leaves. Needs fastapi, uvicorn, httpx and Ray Serve: `pip install
'rankup[serving]'`. Every server listens on a free port of this machine alone and is ended with the lab.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from servers import MissingError, Seen, Servers, free_ports, lean, main, until

POINTS, WIDE, LAYERS, REQUESTS, MOST = 200, 2048, 4, 48, 16


def lab(checkpoint: Path, servers: Servers, seen: Seen) -> None:
    """FastAPI, then Ray Serve. Raises MissingError."""
    for name in ("fastapi", "uvicorn", "httpx", "ray"):
        if importlib.util.find_spec(name) is None:
            raise MissingError(f"{name} is not installed: pip install 'rankup[serving]'")
    if not checkpoint.is_file():
        raise MissingError(f"there is no checkpoint {checkpoint}: train_and_watch.py makes one")
    from serve_app import load, scores
    from spirals import samples

    points = samples(POINTS, seed=9)[0].tolist()
    model = load(checkpoint)
    expected = [scores(model, [point])[0] for point in points]
    together = scores(model, points)
    apart = max(
        abs(a - b) for one, other in zip(expected, together, strict=True) for a, b in zip(one, other, strict=True)
    )
    by_fastapi = with_fastapi(checkpoint, points, servers, seen)
    seen.row("FastAPI's answers are this process's", str(by_fastapi == expected))
    try:
        by_ray = with_ray(checkpoint, points, servers, seen)
        seen.row("Ray Serve's answers are FastAPI's", str(by_ray == by_fastapi))
    except MissingError as why:  # what FastAPI did is worth being told
        by_ray = by_fastapi
        seen.row("Ray Serve, not run", str(why))
    seen.row("the same points in one batch: scores differ by", f"{apart:.1g}")
    seen.figures.update(same=int(by_fastapi == expected == by_ray), apart=apart)


def with_fastapi(checkpoint: Path, points: list[Any], servers: Servers, seen: Seen) -> list[Any]:
    """Alive before it is ready; one point a request, and all in one; who is busy in the event loop."""
    import httpx

    place, port_file = servers.folder / "model.pt", servers.folder / "port"
    app = Path(__file__).with_name("serve_app.py")
    server = servers.start("fastapi", [sys.executable, str(app), str(place), str(port_file)], signal.SIGTERM)
    until("the server has a port", 60, lambda: port_file.exists() or server.process.poll() is not None)
    with httpx.Client(base_url=f"http://127.0.0.1:{port_file.read_text()}", timeout=60, trust_env=False) as client:
        until("the server answers", 60, lambda: _status(client, "/health") == 200)
        body = {"points": points[:1]}
        early = [client.get("/health"), client.get("/ready"), client.post("/predict", json=body)]
        seen.row("FastAPI, no checkpoint yet: /health, /ready, /predict", ", ".join(str(r.status_code) for r in early))
        place.write_bytes(b"not a checkpoint")
        until("it says what is wrong", 60, lambda: "does not fit" in client.get("/ready").text)
        late = [client.get("/health"), client.get("/ready")]
        seen.row("FastAPI, a damaged one: /health, /ready", ", ".join(str(r.status_code) for r in late))
        shutil.copy(checkpoint, servers.folder / "model.part")
        os.replace(servers.folder / "model.part", place)
        until("it is ready", 60, lambda: _status(client, "/ready") == 200)
        good = [client.get("/health"), client.get("/ready"), client.post("/predict", json=body)]
        seen.row("FastAPI, the checkpoint: /health, /ready, /predict", ", ".join(str(r.status_code) for r in good))
        since = time.perf_counter()
        answers = [client.post("/predict", json={"points": [point]}).json()["scores"][0] for point in points]
        one = len(points) / (time.perf_counter() - since)
        since = time.perf_counter()
        client.post("/predict", json={"points": points}).raise_for_status()
        whole = len(points) / (time.perf_counter() - since)
        seen.row("FastAPI, points a second, one a request", f"{one:,.0f}")
        seen.row(f"FastAPI, points a second, {len(points)} a request", f"{whole:,.0f}")
        for way in ("def", "async-def"):
            took = _health_meanwhile(client, f"/busy/{way}")
            seen.row(f"FastAPI, /health while {way.replace('-', ' ')} works for 0.5 s", f"{took * 1e3:.0f} ms")
            seen.figures[f"health, {way}"] = took
    server.end()
    seen.row("FastAPI, SIGTERM: it ended with", str(server.process.returncode))
    seen.figures.update(one=one, whole=whole, fastapi_ended=server.process.returncode)
    seen.figures["statuses"] = " ".join(str(r.status_code) for r in (*early, *late, *good))
    return answers


def _status(client: Any, path: str) -> int:
    import httpx

    with contextlib.suppress(httpx.TransportError):
        return int(client.get(path).status_code)
    return 0


def _health_meanwhile(client: Any, path: str) -> float:
    """The slowest answer of /health, in seconds, while another request is worked on."""
    import httpx

    slowest = 0.0
    with httpx.Client(base_url=client.base_url, timeout=60, trust_env=False) as other:
        other.get("/health")  # its connection is open
        busy = threading.Thread(target=lambda: client.get(path))
        busy.start()
        while busy.is_alive():
            since = time.perf_counter()
            other.get("/health")
            slowest = max(slowest, time.perf_counter() - since)
    return slowest


def with_ray(checkpoint: Path, points: list[Any], servers: Servers, seen: Seen) -> list[Any]:
    """Two replicas behind one address, and a larger model with batches and without. Raises MissingError."""
    os.environ |= {"HOME": str(servers.folder), "RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    os.environ |= {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    lean(servers.folder)
    import ray
    from ray import serve

    begun = time.monotonic()
    with contextlib.redirect_stdout(sys.stderr):
        try:
            ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False,
                     object_store_memory=100 * 2**20, _temp_dir=str(servers.folder))  # fmt: skip
        except Exception as error:  # Ray waits 30 s for its own processes, and raises Exception
            ray.shutdown()
            raise MissingError(f"Ray did not start, maybe because this machine is busy: try again. ({error})") from None
        try:
            [port] = free_ports(1)
            serve.start(http_options={"host": "127.0.0.1", "port": port})
            wide = wide_networks(serve)
            targets = [serve.RunTarget(spirals(serve, checkpoint), name="spirals", route_prefix="/predict")]
            targets += [serve.RunTarget(app, name=way, route_prefix=None) for way, app in wide.items()]
            handles = dict(zip(wide, serve.run_many(targets)[1:], strict=True))
            seen.row("Ray Serve, start, all replicas ready", f"{time.monotonic() - begun:.1f} s")
            answers = ask_replicas(points, port, seen)
            for way, handle in handles.items():
                ask_at_once(way, handle, seen)
        finally:
            serve.shutdown()
            ray.shutdown()
    return answers


def spirals(serve: Any, checkpoint: Path) -> Any:
    """The checkpoint's network in two replicas."""

    @serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 0.5})
    class Spirals:
        def __init__(self, path: str) -> None:  # a replica gets requests only when this has returned
            from serve_app import load

            self.model = load(Path(path))

        async def __call__(self, request: Any) -> dict[str, Any]:
            from serve_app import scores

            return {"scores": scores(self.model, (await request.json())["points"]), "process": os.getpid()}

    return Spirals.bind(str(checkpoint.resolve()))


def ask_replicas(points: list[Any], port: int, seen: Seen) -> list[Any]:
    """The answers to the points, one a request; then one of the two replicas is killed."""
    import httpx

    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
        since = time.perf_counter()
        said = [client.post("/predict", json={"points": [point]}).json() for point in points]
        one = len(points) / (time.perf_counter() - since)
        healthy = client.get("/-/healthz").status_code
        shares = Counter(each["process"] for each in said)
        os.kill(next(iter(shares)), signal.SIGKILL)
        after = [client.post("/predict", json={"points": [point]}) for point in points[:REQUESTS]]
    answered = [each for each in after if each.status_code == 200]
    seen.row("Ray Serve, points a second, one a request", f"{one:,.0f}")
    seen.row("Ray Serve, requests that each replica answered", " and ".join(str(share) for share in shares.values()))
    seen.row("Ray Serve, its proxy's /-/healthz", str(healthy))
    seen.row(f"Ray Serve, a replica killed by SIGKILL, then {REQUESTS} requests", f"{len(answered)} answered")
    seen.figures.update(ray_one=one, replicas=len(shares), after_kill=len(answered))
    return [each["scores"][0] for each in said]


def wide_networks(serve: Any) -> dict[str, Any]:
    """A network of 64 MiB, three ways: each request alone; in batches; in batches that Serve lets through."""

    class Network:
        def __init__(self) -> None:
            import torch

            self.model = torch.nn.Sequential(*(torch.nn.Linear(WIDE, WIDE, bias=False) for _ in range(LAYERS)))
            for size in (1, 2, MOST):
                self.answer([0.0] * size)

        def answer(self, numbers: list[float]) -> list[int]:  # to each the size of the batch that it was in
            import torch

            torch.set_num_threads(1)  # of the thread that Serve calls this in, which is not __init__'s
            with torch.inference_mode():
                self.model(torch.tensor(numbers)[:, None].expand(-1, WIDE))
            return [len(numbers)] * len(numbers)

    @serve.deployment(ray_actor_options={"num_cpus": 0.5})
    class Alone(Network):
        async def __call__(self, number: float) -> int:
            return self.answer([number])[0]

    @serve.deployment(ray_actor_options={"num_cpus": 0.5})
    class Batched(Network):
        @serve.batch(max_batch_size=MOST, batch_wait_timeout_s=0.01)
        async def __call__(self, numbers: list[float]) -> list[int]:
            return self.answer(numbers)

    return {
        "each alone": Alone.options(max_ongoing_requests=64).bind(),
        f"@serve.batch({MOST}), as it comes": Batched.bind(),
        f"@serve.batch({MOST}), max_ongoing_requests=64": Batched.options(max_ongoing_requests=64).bind(),
    }


def ask_at_once(way: str, handle: Any, seen: Seen) -> None:
    """So many requests without waiting for the answers, twice: other programs may have disturbed one of the times."""
    handle.remote(0.0).result()
    took, sizes = float("inf"), []
    for _ in range(2):
        since = time.perf_counter()
        sizes += [answer.result() for answer in [handle.remote(float(number)) for number in range(REQUESTS)]]
        took = min(took, time.perf_counter() - since)
    seen.row(f"{REQUESTS} requests at once, {way}", f"{REQUESTS / took:,.0f} a second, batches up to {max(sizes)}")
    seen.figures.update({f"rate, {way}": REQUESTS / took, f"batch, {way}": max(sizes)})


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("say which checkpoint: python serve_two_ways.py CHECKPOINT")
    sys.exit(main(functools.partial(lab, Path(sys.argv[1])), sys.argv[2:]))
