"""The lab on one GPU, as far as it shows without one: the table, the sentence, and measurements of small sizes here."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from IPython.display import Markdown
from labs import FOLDER

from courselib import gpu, language
from courselib.gpu import Measured, Row

ROWS = (
    Row("matmul", "a product, bf16", 0.0016, 6.9e14, "FLOP/s"),
    Row("checkpointing", "a step, activations kept", 0.21, 3.2e10, "B at most"),
    Row("copies", "a product alone", 0.0016),
)


@pytest.fixture(scope="module")
def lab() -> ModuleType:
    found = importlib.util.spec_from_file_location("one_gpu", FOLDER / "one_gpu.py")
    assert found is not None
    assert found.loader is not None
    made = sys.modules["one_gpu"] = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made


def test_the_table_has_the_machines_name_and_the_parts_that_were_asked_for() -> None:
    text = Measured("a GPU, torch 2", ROWS).table(("matmul", "copies")).text
    assert text.splitlines() == [
        "| a GPU, torch 2 | time | rate or memory |",
        "| --- | --- | --- |",
        "| a product, bf16 | 1.6 ms | 690 TFLOP/s |",
        "| a product alone | 1.6 ms |  |",
    ]
    assert "| 210 ms | 32 GB at most |" in Measured("a GPU", ROWS).table().text


def test_numbers_are_kept_by_part_and_machine(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    Measured("one", ROWS).save(file)
    again = Row("matmul", "a product, bf16", 0.0015)
    Measured("one", (again,)).save(file)
    assert gpu.kept(file) == Measured("one", (*ROWS[1:], again))
    Measured("another", (again,)).save(file)
    assert gpu.kept(file) == Measured("another", (again,))


def test_a_chapter_shows_a_sentence_until_there_are_numbers(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    told = gpu.shown("matmul", "copies", file=file)
    assert isinstance(told, Markdown)
    assert "`python labs/one_gpu.py matmul copies`" in told.data
    Measured("one", ROWS).save(file)
    assert "a product alone" in repr(gpu.shown("matmul", "copies", file=file))
    assert isinstance(gpu.shown("fp8", file=file), Markdown)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_ends() -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / "one_gpu.py"], check=False, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", gpu.NO_GPU + "\n")


@pytest.mark.parametrize(("part", "rows"), [("matmul", 3), ("launches", 1), ("checkpointing", 2), ("fp8", 2)])
def test_what_needs_no_gpu_is_measured_here_on_small_sizes(lab: ModuleType, part: str, rows: int) -> None:
    """Copies need one: there is no pinned memory without it."""
    sizes = lab.Sizes(64, 1024, 10, language.Shape(blocks=2, width=64, heads=4, context=16), 2, 3)
    found = list(lab.PARTS[part](torch.device("cpu"), sizes))
    assert len(found) == rows
    assert all(row.part == part and row.seconds > 0 for row in found)
    off = [float(row.what.split("off by ")[1].rstrip("%")) for row in found if part == "fp8"]
    assert off == sorted(off)  # bf16 is nearer to float32 than FP8
    assert all(0.05 < each < 10 for each in off)


@pytest.mark.gpu
def test_a_gpu_is_measured(lab: ModuleType) -> None:
    sizes = lab.Sizes(1024, 2**24, 100, language.Shape(blocks=2, width=128, heads=2, context=128), 2, 3)
    for part, measure in lab.PARTS.items():
        found = list(measure(torch.device("cuda"), sizes))
        assert found, part
        assert all(row.seconds > 0 or "no such products" in row.what for row in found), part


class Cuda:
    """As much of torch.cuda as shows a cache: blocks that are held for tensors, and beyond."""

    def __init__(self) -> None:
        self.cached = 0

    def is_available(self) -> bool:
        return True

    def memory_allocated(self) -> int:
        return 1000

    def memory_reserved(self) -> int:
        return 2000 - self.cached

    def empty_cache(self) -> None:
        self.cached += 100


def test_memory_that_is_given_back_is_shown_step_by_step_or_said_not_to_be_there() -> None:
    text = gpu.given_back(Cuda(), 10).text  # type: ignore[union-attr]
    assert [line.split("|")[3].strip() for line in text.splitlines()[2:]] == [
        "1.9 kB", "1.9 kB", "1.8 kB", "1.8 kB", "1.7 kB"
    ]  # fmt: skip
    if not torch.cuda.is_available():
        assert isinstance(gpu.given_back(), Markdown)
