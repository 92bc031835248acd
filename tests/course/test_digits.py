"""The images of chapter 07: all there, cut in two parts without overlap, and a network that one step changes alike."""

from __future__ import annotations

import torch

from courselib import digits

OF_EACH_DIGIT = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]  # as UCI's description of the test part counts them


def test_all_images_are_there_with_their_digits() -> None:
    for drawn in (True, False):
        (x, y), (held_x, held_y) = digits.train(drawn), digits.held_out(drawn)
        assert x.shape == (1440, 1, 8, 8)
        assert held_x.shape == (357, 1, 8, 8)
        assert torch.bincount(torch.cat([y, held_y])).tolist() == OF_EACH_DIGIT
        assert 0 == x.min() < x.max() == 1
        whole = {tuple(image.flatten().tolist()) for image in torch.cat([x, held_x])}
        assert len(whole) == len({tuple(image.flatten().tolist()) for image in x}) + 357


def test_the_network_is_the_same_for_the_same_seed_and_as_small_as_it_says() -> None:
    one, other = digits.network(), digits.network()
    assert sum(p.numel() for p in one.parameters()) == 6090
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), other.parameters(), strict=True))
    assert one(digits.train()[0][:5]).shape == (5, 10)
