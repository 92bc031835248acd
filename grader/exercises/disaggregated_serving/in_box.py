"""A small transformer in each rank, cut in two: prefill_layer() for prefillers, decode() for decoders; and their calls.

Runs in every rank. It judges nothing: the exercise does, outside, by what the ranks return, by the times at which they
compute, and by the caches that decode() was given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from grader.ranks.model import compute

submission: Any  # the learner's module
EPSILON = 1e-6


class State:
    """What prefill_layer() hands from one layer to the next."""

    def __init__(self, request: int, layer: int, hidden: Tensor) -> None:
        self.request, self.layer, self.hidden = request, layer, hidden


class Model:
    """Decoder-only, heads of equal width, RMS norm without weights, learned positions.

    `embed` is (2, vocabulary + 1, width), for what goes in and what comes out; the last token begins every answer.
    `positions` is (positions, width), `weights` (layers, 6, width, width): query, key, value, output, up, down.
    """

    def __init__(self, plan: dict[str, Any], embed: Tensor, positions: Tensor, weights: Tensor) -> None:
        self.layers, self.width = len(weights), embed.shape[2]
        self._plan, self._embed, self._positions, self._weights = plan, embed, positions, weights
        self._seen: list[Any] = []

    # ---- on prefillers

    def prefill_layer(self, i: int, state: Any) -> tuple[State, Tensor]:
        """Layer i of a prompt, and its cache (2, len(prompt), width)."""
        if not self._plan["prefills"]:
            raise RuntimeError("model.prefill_layer() works on prefillers only, and this rank is a decoder")
        if not isinstance(i, int) or not 0 <= i < self.layers:
            raise ValueError(f"prefill_layer() takes a layer from 0 to {self.layers - 1}, not {i!r}")
        before = self._begun(state) if i == 0 else self._after(i, state)
        x = before.hidden
        compute(self._plan["layer"] * len(x), f"P{before.request}L{i}")
        x, keys, values = self._layer(i, x, None)
        return State(before.request, i, x), torch.stack([keys, values])

    def _begun(self, prompt: Any) -> State:
        known = {tuple(tokens): request for request, tokens in self._plan["requests"]}
        try:
            request = known[tuple(prompt)]
        except (KeyError, TypeError):
            raise ValueError(
                "prefill_layer(0, state) takes the prompt of a request, a list of ints, and this is none"
            ) from None
        return State(request, -1, self._embed[0, list(prompt)] + self._positions[: len(prompt)])

    def _after(self, i: int, state: Any) -> State:
        if not isinstance(state, State):
            raise ValueError(
                f"prefill_layer({i}, state) takes the state that prefill_layer({i - 1}, ...) returned, not a "
                f"{type(state).__name__}"
            )
        if state.layer != i - 1:
            raise ValueError(
                f"prefill_layer({i}, state) takes the state after layer {i - 1}, and this one is after layer "
                f"{state.layer} of request {state.request}"
            )
        return state

    # ---- on decoders

    def decode(self, request_id: int, caches: list[Tensor]) -> list[int]:
        """All tokens of a request, from the caches of all layers."""
        if self._plan["prefills"]:
            raise RuntimeError("model.decode() works on decoders only, and this rank is a prefiller")
        told = self._plan["answers"].get(str(request_id))
        if told is None or not isinstance(request_id, int):
            raise ValueError(f"model.decode() takes the id of a request, and {request_id!r} is none")
        length, new = told
        kept = self._checked(request_id, caches, length)
        self._seen.append([request_id, [cache.clone() for cache in kept]])
        compute(self._plan["decode"], f"D{request_id}")
        token, tokens = self._embed.shape[1] - 1, []
        for position in range(length, length + new):
            x = self._embed[0, [token]] + self._positions[[position]]
            for i, cache in enumerate(kept):
                x, keys, values = self._layer(i, x, cache)
                kept[i] = torch.stack([keys, values])
            token = int((_normed(x) @ self._embed[1, :-1].T).argmax())
            tokens.append(token)
        return tokens

    def _checked(self, request: int, caches: Any, length: int) -> list[Tensor]:
        if not isinstance(caches, (list, tuple)) or len(caches) != self.layers:
            got = f"{len(caches)}" if isinstance(caches, (list, tuple)) else f"a {type(caches).__name__}"
            _refuse(request, f"takes a list of {self.layers} caches, one for each layer, not {got}")
        shape = (2, length, self.width)
        for i, cache in enumerate(caches):
            if not isinstance(cache, Tensor) or cache.dtype != torch.float32:
                got = f"{cache.dtype}" if isinstance(cache, Tensor) else f"a {type(cache).__name__}"
                _refuse(request, f"takes float32 tensors, and layer {i} is {got}")
            if tuple(cache.shape) != shape:
                _refuse(request, f"takes caches of shape {shape}, and layer {i} has {tuple(cache.shape)}")
        return [cache.detach().clone() for cache in caches]

    # ---- on both

    def _layer(self, i: int, x: Tensor, cache: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Layer i: its output, and the keys and values of all positions. Without a cache each position sees itself
        and those before it; with one, the only position sees all."""
        query, key, value, output, up, down = self._weights[i]
        normed, heads = _normed(x), self._plan["heads"]
        keys, values = normed @ key, normed @ value
        if cache is not None:
            keys, values = torch.cat([cache[0], keys]), torch.cat([cache[1], values])
        q, k, v = (each.view(len(each), heads, -1).transpose(0, 1) for each in (normed @ query, keys, values))
        scores = q @ k.transpose(1, 2) / (self.width // heads) ** 0.5
        if cache is None:
            scores = scores.masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), float("-inf"))
        x = x + (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(x), -1) @ output
        return x + torch.relu(_normed(x) @ up) @ down, keys, values


def _normed(x: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + EPSILON).sqrt()


def _refuse(request: int, why: str) -> NoReturn:
    raise ValueError(f"model.decode({request}, caches) {why}")


def serve(
    prefill: Callable[..., Any], plan: dict[str, Any], embed: Tensor, positions: Tensor, weights: Tensor
) -> dict[str, Any]:
    """One rank's part: what it returned, and on decoders the caches of each decode()."""
    model, world = Model(plan, embed, positions, weights), range(dist.get_world_size())
    prefillers, decoders = list(world[: plan["prefillers"]]), list(world[plan["prefillers"] :])
    with torch.no_grad():
        if plan["prefills"]:
            value = prefill({request: list(prompt) for request, prompt in plan["requests"]}, model, decoders)
        else:
            value = submission.decode(model, prefillers)
    pairs = [[request, tokens] for request, tokens in value.items()] if isinstance(value, dict) else None
    return {"type": type(value).__name__, "pairs": pairs, "seen": model._seen}
