"""The numbers of figures against what they stand for: programs on simulated ranks, and simulated failures."""

from __future__ import annotations

import pytest

from courselib.figures.collectives import all_reduces, crossing
from courselib.figures.goodput import best_interval, parts
from courselib.figures.routing import routed
from courselib.figures.serving import cached, goal, roofs
from courselib.figures.sharding import sharded
from courselib.goodput import Run, simulate, young_daly
from grader.ranks.engines import Engines
from grader.ranks.network import Network
from grader.ranks.program import Program, same_for_all

ALL_REDUCES = """
import torch, torch.distributed as dist

def swap(outgoing, to, incoming, source):
    request = dist.isend(outgoing, to)
    dist.recv(incoming, source)
    request.wait()
    return incoming

def around(chunks, peers, steps):  # steps of a ring all-reduce among `peers`: the first n - 1 add
    n, me = len(peers), peers.index(dist.get_rank())
    for step in steps:
        outgoing, incoming = chunks[(me - step) % n], chunks[(me - step - 1) % n]
        got = swap(outgoing.clone(), peers[(me + 1) % n], torch.empty_like(incoming), peers[me - 1])
        incoming.copy_(incoming + got if step < n - 1 else got)
    return chunks[(me + 1) % n]

def ring(x, group):
    n = dist.get_world_size()
    around(x.chunk(n), list(range(n)), range(2 * n - 2))

def hierarchical(x, group):
    n, rank = dist.get_world_size(), dist.get_rank()
    node, counterparts = rank // group, list(range(rank % group, n, group))
    peers, chunks = list(range(node * group, (node + 1) * group)), x.chunk(group)
    mine = around(chunks, peers, range(group - 1))
    around(mine.chunk(n // group), counterparts, range(2 * (n // group) - 2))
    around(chunks, peers, range(group - 1, 2 * group - 2))

def tree(x, group, reach=1):
    rank, got = dist.get_rank(), torch.empty_like(x)
    if rank % (2 * reach):
        dist.send(x, rank - reach)
        dist.recv(x, rank - reach)
    elif reach < dist.get_world_size():
        dist.recv(got, rank + reach)
        x += got
        tree(x, group, 2 * reach)
        dist.send(x, rank + reach)

def halving(x, group, reach=1):
    if reach < dist.get_world_size():
        peer, (low, high) = dist.get_rank() ^ reach, x.chunk(2)
        keep, give = (low, high) if dist.get_rank() < peer else (high, low)
        keep += swap(give, peer, keep.clone(), peer)
        halving(keep, group, 2 * reach)
        swap(keep, peer, give, peer)

def run(name, numbers, group):
    x = torch.ones(numbers)
    {"ring": ring, "tree": tree, "halving and doubling": halving, "hierarchical": hierarchical}[name](x, group)
    return x.tolist() == [dist.get_world_size()] * numbers
"""


@pytest.mark.parametrize(("ranks", "group", "numbers"), [(8, 4, 64), (16, 4, 256), (4, 4, 1024), (8, 1, 16)])
def test_all_reduces_take_and_send_what_simulated_ranks_do(
    engines: Engines, ranks: int, group: int, numbers: int
) -> None:
    program = Program.of(ALL_REDUCES, "a cell", "run")
    alpha, beta, node_alpha, node_beta = 3e-3, 5e-5, 1e-3, 1e-6
    flat = Network(alpha, beta)
    nodes = Network(node_alpha, node_beta, -1, group, alpha, beta, uplinks_per_node=group)
    for name, one in all_reduces(ranks, alpha, beta, group, node_alpha, node_beta).items():
        network = nodes if name == "hierarchical" else flat
        run = engines.run("sim", program, ranks, [same_for_all(ranks, name, numbers, group)], 1, network=network)
        call, size = run.calls[0], 4 * numbers
        assert all(call.returned), name
        assert max(call.finish) == pytest.approx(one.seconds(size), rel=1e-6), name
        assert max(map(call.trace.bytes_sent, range(ranks))) == pytest.approx(one.sent * size), name


@pytest.mark.parametrize("ranks", [4, 64, 1024])
def test_two_all_reduces_are_equally_fast_where_they_cross(ranks: int) -> None:
    found = all_reduces(ranks, 4e-6, 1 / 50e9, 8, 2e-6, 1 / 450e9)
    size = crossing(found["tree"], found["ring"])
    assert size
    assert found["tree"].seconds(size) == pytest.approx(found["ring"].seconds(size))
    assert found["tree"].seconds(2 * size) > found["ring"].seconds(2 * size)
    assert crossing(found["ring"], found["tree"]) is None


def test_goodput_is_that_of_simulated_failures() -> None:
    for interval, restart in ((300.0, 600.0), (1138.0, 0.0), (7200.0, 600.0)):
        run = Run(1, 10800.0, interval, 60.0, detect=restart / 2, restart=restart / 2)
        seen, shares = simulate(run, 400 * 86400.0, 1), parts(interval, 60.0, 10800.0, restart)
        assert shares.useful == pytest.approx(seen.goodput, abs=0.01)
        assert shares.redone == pytest.approx(seen.redone / seen.total, abs=0.01)
        assert sum(vars(shares).values()) == pytest.approx(1)
    best = best_interval(60.0, 10800.0)
    assert best == pytest.approx(young_daly(60.0, 10800.0), rel=0.05)
    around = [parts(best * factor, 60.0, 10800.0, 0.0).useful for factor in (0.98, 1.0, 1.02)]
    assert max(around) == around[1]


def test_sharded_states_are_those_of_the_formulas() -> None:
    found = sharded(7e9, 8, "mixed", 1)
    assert [one.memory / 7e9 for one in found.values()] == pytest.approx([16, 4 + 12 / 8, 2 + 14 / 8, 2, 2 + 14 / 8])
    part = 7 / 8 * 14e9
    assert [one.sent / part for one in found.values()] == pytest.approx([2, 2, 2, 3, 2])
    assert [one.sent / part for one in sharded(7e9, 8, "mixed", 4).values()] == pytest.approx([2, 2, 5, 12, 8])


def test_a_skewed_router_fills_some_ranks_and_a_capacity_drops_what_they_lack_room_for() -> None:
    even, skewed, capped = routed(64, 8, 2, 0.0, 0.0), routed(64, 8, 2, 2.0, 0.0), routed(64, 8, 2, 2.0, 1.25)
    assert (even.useful, even.lost, skewed.lost) == pytest.approx((1, 0, 0))
    assert sum(skewed.kept) == pytest.approx(8)
    assert (skewed.useful, capped.useful, capped.lost) == pytest.approx((0.49, 0.68, 0.15), abs=0.005)
    assert even.sent == even.received == 2 * 4096 * 4096 * 2 * 7 / 8


def test_what_the_figures_of_serving_say_in_words() -> None:
    within, loose = goal("70B", "8xh100", 8192, 1, 0.02), goal("70B", "8xh100", 8192, 1, 0.05)
    assert within.best
    assert loose.best
    assert (within.best.batch, loose.best.batch, loose.fits) == (147, 162, 162)
    assert within.best.rate / within.now.rate == pytest.approx(39, abs=0.5)
    assert (within.best.dollars, within.now.dollars) == pytest.approx((0.75, 29.6), rel=0.01)
    assert roofs("70B", "8xh100", 2048, 4096, 8192).decode[0] < 60
    found = cached(80, 64, 8, 128, 8192, 400e9)
    assert found["MLA"][0] / (found["GQA"][0] / 8) == 2.25
    assert cached(80, 128, 8, 128, 8192, 400e9)["MLA"] == found["MLA"]
