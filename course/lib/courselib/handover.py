"""Prefill on one rank and decode on others, for simulated ranks: caches in parts, and a decoder that dies."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist

from courselib.steps import Recorder


def separate(parts: int, layers: int = 4) -> list[list[Any]]:
    """Rank 0 prefills three prompts, rank 1 decodes. A prompt's cache travels in so many parts; what each rank did."""
    return _prefills(parts, layers) if dist.get_rank() == 0 else _decodes(parts, layers)


def _prefills(parts: int, layers: int) -> list[list[Any]]:
    seen, sent = Recorder(), []
    for prompt in range(3):
        for layer in range(1, layers + 1):
            seen.work(0.010, f"{prompt}.{layer}", "prefill")
            if layer % (layers // parts) == 0:  # a part is ready, and travels while the next layer is computed
                sent.append(dist.isend(torch.zeros(1000 * layers // parts), 1))
    for request in sent:
        request.wait()
    return seen.boxes


def _decodes(parts: int, layers: int) -> list[list[Any]]:
    seen = Recorder()
    caches = [[dist.irecv(torch.zeros(1000 * layers // parts), 0) for _ in range(parts)] for _ in range(3)]
    for prompt, arriving in enumerate(caches):
        for part in arriving:
            part.wait()
        seen.work(0.030, str(prompt), "decode")
    return seen.boxes


def answered(requests: int) -> list[list[Any]]:
    """Rank 0 prefills and gives each request to the decoder that has the fewest. Those of a dead decoder are prefilled
    again for another: its caches and its answers died with it. What each rank did."""
    if dist.get_rank() > 0:
        return _decoded()
    seen, todo = Recorder(), list(range(requests))
    given: dict[int, list[int]] = {decoder: [] for decoder in range(1, dist.get_world_size())}
    sent: dict[int, list[Any]] = {decoder: [] for decoder in given}
    while todo:
        decoder, request = min(given, key=lambda each: len(given[each])), todo.pop(0)
        seen.work(0.010, str(request), "prefill")
        given[decoder].append(request)
        try:
            sent[decoder].append(dist.isend(torch.tensor([request]), decoder))  # does not wait for a busy decoder
        except RuntimeError:
            todo += _dead(decoder, given, sent)
        if not todo:
            todo = _lost(given, sent)
    for decoder in given:
        dist.send(torch.tensor([END]), decoder)
    return seen.boxes


ASK, END = -1, -2


def _lost(given: dict[int, list[int]], sent: dict[int, list[Any]]) -> list[int]:
    """The requests of decoders that do not say that they are done."""
    missing: list[int] = []
    for decoder in list(given):
        try:
            while sent[decoder]:
                sent[decoder].pop(0).wait()
            dist.send(torch.tensor([ASK]), decoder)
            dist.recv(torch.zeros(1), decoder)
        except RuntimeError:
            missing += _dead(decoder, given, sent)
    return missing


def _dead(decoder: int, given: dict[int, list[int]], sent: dict[int, list[Any]]) -> list[int]:
    """All of its requests. What is on its way to it fails, and must be waited for all the same."""
    for request in sent[decoder]:
        with suppress(RuntimeError):
            request.wait()
    return given.pop(decoder)


def _decoded() -> list[list[Any]]:
    seen, request = Recorder(), torch.zeros(1, dtype=torch.int64)
    while True:
        dist.recv(request, 0)
        if request.item() == END:
            return seen.boxes
        if request.item() == ASK:
            dist.send(torch.zeros(1), 0)
        else:
            seen.work(0.030, str(request.item()), "decode")
