"""Counting what autograd keeps: each memory once, for as long as it is kept."""

from __future__ import annotations

import gc

import torch
from torch.autograd.graph import saved_tensors_hooks

from courselib.saved import SavedBytes, alive_bytes


def test_what_a_product_needs_is_counted_until_its_backward_pass() -> None:
    x, y = torch.ones(100, requires_grad=True), torch.ones(100, requires_grad=True)
    count = SavedBytes()
    with saved_tensors_hooks(count.pack, count.unpack):
        z = (x * y).sum()
        assert count.now == 800
        z.backward()
    del z
    assert (count.now, count.peak) == (0, 800)
    assert torch.equal(x.grad, torch.ones(100))


def test_shared_memory_counts_once_and_parameters_not_at_all() -> None:
    weight, x = torch.nn.Parameter(torch.ones(10, 10)), torch.ones(10, 10)
    count = SavedBytes([weight])
    with saved_tensors_hooks(count.pack, count.unpack):
        y = torch.tanh(x @ weight)
        z = (y * y.view(10, 10)).sum()
        assert count.now == 400 + 400
        z.backward()


def test_an_output_that_keeps_itself_is_let_go_with_its_graph() -> None:
    count = SavedBytes()
    with saved_tensors_hooks(count.pack, count.unpack):
        y = torch.ones(8, requires_grad=True).exp()
        assert count.now == 32
    del y
    assert count.now == 0


def test_two_views_of_one_memory_are_alive_once() -> None:
    gc.collect()
    before = alive_bytes()
    kept = torch.zeros(1000)
    views = [kept.view(10, 100), kept[:7]]
    assert alive_bytes() - before == 4000
    del views
