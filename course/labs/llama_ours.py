"""A small server of completions for the tiny Llama of llama_tiny.py: several places, one forward pass a step for all.

    python llama_ours.py WEIGHTS.npz PORT_FILE [PLACES]

listens on a free port of the loopback interface and writes its number to PORT_FILE. POST /v1/completions takes prompt,
max_tokens, stop and stream, as OpenAI's API does, and always takes the likeliest token. A place keeps its keys and
values when its request is over. A later request gets the free place whose tokens begin like its own, and computes only
the rest.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

BOS, EOS, FIRST = 1, 2, 259  # FIRST: the space; the letters follow
HEADS, EPSILON, BASE = 4, 1e-5, 10_000.0
LETTERS = " abcdefghijklmnopqrstuvwxyz"


@dataclass
class Request:
    """A request, and where its pieces of text go; None says that it is over."""

    prompt: list[int]
    most: int
    stop: list[str]
    pieces: queue.Queue[str | None] = field(default_factory=queue.Queue)
    text: str = ""
    told: int = 0  # characters that went out
    why: str = "length"
    kept: int = 0  # prompt tokens that were not computed, because a place had them


@dataclass
class Place:
    """A sequence: its tokens, and of each layer the keys and values [heads, tokens, head size] of the first ones."""

    request: Request | None = None
    tokens: list[int] = field(default_factory=list)
    cache: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    used: int = 0  # when it was given away last, as a number of admissions

    @property
    def cached(self) -> int:
        return self.cache[0][0].shape[1] if self.cache else 0


class Model:
    """Llama: RMS norm, rotary positions, SwiGLU. Linear layers see all sequences at once (Orca: Yu et al., 2022)."""

    def __init__(self, path: Path) -> None:
        self.w = {name: torch.from_numpy(value) for name, value in np.load(path).items()}
        self.layers = sum(name.endswith("attn_q.weight") for name in self.w)

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * self.w[f"{name}.weight"]

    def forward(self, places: list[Place]) -> list[int]:
        """Computes what each place has not in its cache. Returns the likeliest next token of each."""
        new = [place.tokens[place.cached :] for place in places]
        at = torch.cat([torch.arange(place.cached, len(place.tokens)) for place in places])
        x = self.w["token_embd.weight"][torch.tensor([token for tokens in new for token in tokens])]
        longer: list[list[tuple[Tensor, Tensor]]] = [[] for _ in places]
        for layer in range(self.layers):
            name, h = f"blk.{layer}", self.norm(x, f"blk.{layer}.attn_norm")
            q, k, v = (self._heads(h @ self.w[f"{name}.attn_{each}.weight"].T) for each in "qkv")
            q, k, begin, seen = turned(q, at), turned(k, at), 0, []
            for number, (place, tokens) in enumerate(zip(places, new, strict=True)):  # attention: one by one
                part = slice(begin, begin + len(tokens))
                begin += len(tokens)
                keys, values = k[:, part], v[:, part]
                if place.cache:
                    keys = torch.cat([place.cache[layer][0], keys], 1)
                    values = torch.cat([place.cache[layer][1], values], 1)
                longer[number].append((keys, values))
                mask = torch.ones(len(tokens), keys.shape[1], dtype=torch.bool).tril(keys.shape[1] - len(tokens))
                out = functional.scaled_dot_product_attention(q[:, part], keys, values, attn_mask=mask)
                seen.append(out.transpose(0, 1).flatten(1))
            x = x + torch.cat(seen) @ self.w[f"{name}.attn_output.weight"].T
            h = self.norm(x, f"{name}.ffn_norm")
            inner = functional.silu(h @ self.w[f"{name}.ffn_gate.weight"].T) * (h @ self.w[f"{name}.ffn_up.weight"].T)
            x = x + inner @ self.w[f"{name}.ffn_down.weight"].T
        for place, cache in zip(places, longer, strict=True):
            place.cache = cache
        last = torch.tensor([len(tokens) for tokens in new]).cumsum(0) - 1
        logits = self.norm(x[last], "output_norm") @ self.w["output.weight"].T
        return [int(token) for token in logits.argmax(1)]

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(len(x), HEADS, -1).transpose(0, 1)


def turned(x: Tensor, at: Tensor) -> Tensor:
    """Rotary positions: each pair of neighboring numbers is turned by an angle that grows with the position."""
    size = x.shape[-1]
    angle = at[:, None] * BASE ** (-torch.arange(0, size, 2) / size)
    even, odd, cos, sin = x[..., 0::2], x[..., 1::2], angle.cos(), angle.sin()
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class Engine:
    """Steps as long as there is a request; who waits gets a place as soon as one is free."""

    def __init__(self, model: Model, places: int) -> None:
        self.model, self.places = model, [Place() for _ in range(places)]
        self.coming: queue.Queue[Request] = queue.Queue()
        self.admitted = 0

    def run(self) -> None:
        waiting: list[Request] = []
        with torch.inference_mode():
            while True:
                busy = [place for place in self.places if place.request]
                if not busy and not waiting:
                    waiting.append(self.coming.get())
                while not self.coming.empty():
                    waiting.append(self.coming.get())
                while waiting and len(busy) < len(self.places):
                    busy.append(self._admit(waiting.pop(0)))
                for place, token in zip(busy, self.model.forward(busy), strict=True):
                    self._took(place, token)

    def _admit(self, request: Request) -> Place:
        """The free place that has most of the prompt, if that is a tenth of it; else the one unused for longest."""
        free = [place for place in self.places if place.request is None]
        alike = {id(place): common(place.tokens[: place.cached], request.prompt) for place in free}
        place = max(free, key=lambda each: alike[id(each)])
        if alike[id(place)] < len(request.prompt) / 10:
            place = min(free, key=lambda each: each.used)
        request.kept = min(alike[id(place)], len(request.prompt) - 1)
        self.admitted += 1
        place.used = self.admitted
        place.cache = [(k[:, : request.kept], v[:, : request.kept]) for k, v in place.cache] if request.kept else []
        place.request, place.tokens = request, list(request.prompt)
        return place

    def _took(self, place: Place, token: int) -> None:
        request = place.request
        assert request is not None
        place.tokens.append(token)
        if token >= FIRST:
            request.text += LETTERS[token - FIRST]
        ends = [request.text.find(stop) for stop in request.stop if stop in request.text]
        over = token == EOS or bool(ends) or len(place.tokens) - len(request.prompt) >= request.most
        if ends:
            request.text = request.text[: min(ends)]
        if ends or token == EOS:
            request.why = "stop"
        safe = len(request.text) if over else len(request.text) - held_back(request.text, request.stop)
        if safe > request.told:
            request.pieces.put(request.text[request.told : safe])
            request.told = safe
        if over:
            place.request = None
            request.pieces.put(None)


def common(a: list[int], b: list[int]) -> int:
    """How many tokens two sequences have in common at their beginning."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def held_back(text: str, stop: list[str]) -> int:
    """Characters at the end that may be the beginning of a stop: they do not go out yet."""
    return max((n for each in stop for n in range(1, len(each)) if text.endswith(each[:n])), default=0)


def handler(engine: Engine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_GET(self) -> None:
            self._send(b'{"ready": true}')

        def _send(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stop = body.get("stop") or []
            prompt = [BOS, *(FIRST + LETTERS.index(letter) for letter in body["prompt"])]
            request = Request(prompt, body.get("max_tokens", 16), [stop] if isinstance(stop, str) else stop)
            engine.coming.put(request)
            pieces: Iterator[str] = iter(request.pieces.get, None)  # type: ignore[arg-type]
            if body.get("stream"):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for piece in pieces:
                    self._event({"choices": [{"text": piece, "finish_reason": None}]})
                self._event({"choices": [{"text": "", "finish_reason": request.why}]})
                self.wfile.write(b"data: [DONE]\n\n")
                return
            text = "".join(pieces)
            usage = {"prompt_tokens": len(prompt), "prompt_tokens_details": {"cached_tokens": request.kept}}
            self._send(json.dumps({"choices": [{"text": text, "finish_reason": request.why}], "usage": usage}).encode())

        def _event(self, data: dict[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()

    return Handler


def main(weights: Path, port_file: Path, places: int = 4) -> None:
    torch.set_num_threads(1)
    engine = Engine(Model(weights), places)
    threading.Thread(target=engine.run, daemon=True).start()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(engine))
    part = port_file.with_suffix(".part")
    part.write_text(str(server.server_address[1]))
    os.replace(part, port_file)
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
