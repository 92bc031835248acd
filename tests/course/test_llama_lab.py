"""The lab on llama.cpp's server: where it was built, both servers write the same; elsewhere, one sentence."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import labs
import pytest
import torch

LAB = labs.FOLDER / "llama_server.py"


@pytest.mark.heavy
def test_both_servers_write_the_same() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--json"))["figures"]
    assert figures["same, no penalty"] == 12
    for name in ("llama.cpp", "ours"):
        assert (figures[f"{name}: stop"], figures[f"{name}: length"]) == ("stop", "length")
        assert figures[f"{name}: stream is the same"] == 1
        assert figures[f"{name}: longer"] > 80
    assert (figures["llama.cpp: between"], figures["ours: between"]) == (0, 1)
    assert figures["llama.cpp: again"] < 10 < 80 < figures["ours: again"]


@pytest.mark.heavy
@pytest.mark.parametrize("number", labs.BY_TERMINATION, ids=lambda number: number.name)
def test_no_server_outlives_the_lab(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "python")


def test_without_llama_cpp_there_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "course" / "labs"
    shutil.copytree(labs.FOLDER, folder)
    done = subprocess.run([sys.executable, str(folder / LAB.name)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == "llama.cpp is not built: make llama-lab builds it in an environment of its own"


def test_our_server_writes_the_same_in_a_batch_and_from_a_kept_prefix() -> None:
    """Random weights, drawn here: what a request gets depends neither on its neighbors nor on what a place has kept."""
    sys.path.insert(0, str(labs.FOLDER))
    try:
        import llama_ours as ours
    finally:
        sys.path.remove(str(labs.FOLDER))
    draw, width, inner = torch.Generator().manual_seed(3), 16, 32
    shapes = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (width, width))
    shapes |= {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
    model = ours.Model.__new__(ours.Model)
    model.layers, size = 1, ours.FIRST + len(ours.LETTERS)
    model.w = {f"blk.0.{name}.weight": torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    model.w |= {
        name: torch.ones(width) for name in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight")
    }
    model.w |= {name: torch.randn(size, width, generator=draw) for name in ("token_embd.weight", "output.weight")}

    def engine(prompts: list[list[int]], places: int, kept: bool) -> list[list[int]]:
        one, found = ours.Engine(model, places), []
        waiting = [ours.Request(prompt, 6, []) for prompt in prompts]
        while waiting or any(place.request for place in one.places):
            while waiting and any(place.request is None for place in one.places):
                place = one._admit(waiting.pop(0))
                if not kept:
                    place.cache, place.request.kept = [], 0
            busy = [place for place in one.places if place.request]
            for place, token in zip(busy, model.forward(busy), strict=True):
                prompt = place.request.prompt
                one._took(place, token)
                if place.request is None:
                    found.append(place.tokens[: len(prompt) + 6])
        return sorted(found)

    prompts = [[1, 260, 261, 262, 263], [1, 260, 261, 262, 270, 271], [1, 265]]
    alone = sorted(tokens for prompt in prompts for tokens in engine([prompt], 1, kept=False))
    assert engine(prompts, 3, kept=True) == alone
    assert engine(prompts, 1, kept=True) == alone
