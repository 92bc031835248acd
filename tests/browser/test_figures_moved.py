"""Figures of training: their scripts' numbers against Python's, and moved by keys and mouse without a kernel."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from moving import script, shown, state
from playwright.sync_api import Page, expect

from courselib import anomalies, figures, isr, planner
from courselib.figures.accounting import accounted
from courselib.figures.collectives import all_reduces, crossing
from courselib.figures.goodput import best_interval, first_order, parts
from courselib.figures.pipeline import orders, played
from courselib.figures.plans import CLUSTER, MODEL, PLAN
from courselib.figures.routing import routed
from courselib.figures.serving import cached, goal, roofs
from courselib.figures.sharding import sharded
from courselib.goodput import young_daly
from courselib.interleaved import play


@pytest.fixture
def show(page: Page, tmp_path: Path) -> Iterator[Callable[[Any, str], Page]]:
    with shown(page, tmp_path) as show:
        yield show


# ---- the scripts' numbers are Python's


@pytest.mark.parametrize(
    ("ranks", "size", "alpha", "bandwidth", "group"),
    [(64, 1e6, 4e-6, 50e9, 8), (2, 1e3, 1e-3, 1e8, 1), (4096, 1e10, 1e-6, 1e12, 64), (8, 5e4, 5e-5, 1.25e9, 16)],
)
def test_all_reduces(page: Page, ranks: int, size: float, alpha: float, bandwidth: float, group: int) -> None:
    made = state(figures.collectives(ranks, size, alpha=alpha, bandwidth=bandwidth, group=group))
    seen = script(page, "collectives", "numbers(given[0])", made)
    found = all_reduces(ranks, alpha, 1 / bandwidth, group, 2e-6, 1 / 450e9)
    for name, one in found.items():
        told = {"steps": one.steps, "fixed": one.fixed, "each": one.each, "seconds": one.seconds(size),
                "sent": one.sent * size, "inside": one.inside * size}  # fmt: skip
        assert seen["algorithms"][name] == pytest.approx(told), name
    assert seen["ring_beats_tree"] == pytest.approx(crossing(found["tree"], found["ring"]))
    assert seen["nodes_beat_flat"] == pytest.approx(crossing(found["halving and doubling"], found["hierarchical"]))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zb-h1"])
def test_schedules(page: Page, schedule: str) -> None:
    for stages, micro_batches, pieces, times in (
        (4, 8, 2, (1.0, 1.0, 1.0)),
        (3, 6, 3, (1.0, 2.5, 0.5)),
        (8, 24, 4, (0.5, 1.0, 3.0)),
        (1, 2, 1, (1.0, 1.0, 2.0)),
        (4, 4, 1, (3.0, 0.5, 1.0)),
    ):
        forward, backward, weights = times
        made = figures.pipeline(schedule, stages, micro_batches, pieces, forward=forward, backward=backward,
                                weights=weights)  # fmt: skip
        seen = script(page, "pipeline", "numbers(given[0])", state(made))
        found = played(orders(schedule, stages, micro_batches, pieces), *times)
        assert [[name for name, *_ in row] for row in seen["rows"]] == [
            [name for name, *_ in row] for row in found.rows
        ]
        assert [each[1:] for row in seen["rows"] for each in row] == [
            pytest.approx(each[1:]) for row in found.rows for each in row
        ]
        told = found.seconds, found.bubble, *found.peaks
        assert (seen["seconds"], seen["bubble"], *seen["peaks"]) == pytest.approx(told, abs=1e-12)


@pytest.mark.parametrize("made", [(64, 8, 2, 2.0, 0.0), (32, 16, 8, 4.0, 1.25), (256, 2, 1, 0.0, 1.0)])
def test_routing(page: Page, made: tuple[int, int, int, float, float]) -> None:
    seen = script(page, "routing", "numbers(given[0])", state(figures.routing(*made)))
    found = asdict(routed(*made))
    assert seen == {name: pytest.approx(value, abs=1e-9) for name, value in found.items()}


@pytest.mark.parametrize(
    ("parameters", "ranks", "micro_batches", "recipe"),
    [(7e9, 8, 8, "mixed"), (1e9, 1, 1, "float32"), (2e12, 4096, 128, "bf16")],
)
def test_sharded_states(page: Page, parameters: float, ranks: int, micro_batches: int, recipe: str) -> None:
    seen = script(
        page, "sharding", "numbers(given[0])", state(figures.sharding(parameters, ranks, micro_batches, recipe))
    )
    found = sharded(parameters, ranks, recipe, micro_batches)
    assert {name: pytest.approx([*asdict(one).values()]) for name, one in found.items()} == seen


@pytest.mark.parametrize(("hidden", "layers", "sequence", "batch"), [(8192, 80, 8192, 1), (512, 2, 1 << 20, 1024)])
def test_a_transformer_accounted(page: Page, hidden: int, layers: int, sequence: int, batch: int) -> None:
    seen = script(page, "accounting", "numbers(given[0])", state(figures.accounting(hidden, layers, sequence, batch)))
    assert seen == pytest.approx(asdict(accounted(layers, hidden, sequence, batch)))


@pytest.mark.parametrize("made", [("70B", "8xh100", 2048, 32, 2048), ("8B", "nvl72", 16, 1, 131072)])
def test_rooflines(page: Page, made: tuple[str, str, int, int, int]) -> None:
    seen = script(page, "roofline", "numbers(given[0])", state(figures.roofline(*made)))
    assert seen == {name: pytest.approx(value) for name, value in asdict(roofs(*made)).items()}


@pytest.mark.parametrize(
    "made",
    [("70B", "8xh100", 8192, 32, 0.02), ("405B", "nvl72", 131072, 1024, 0.05), ("405B", "8xh100", 2048, 1, 0.2),
     ("8B", "8xh100", 512, 4096, 0.05)],
)  # fmt: skip
def test_batches_within_a_goal(page: Page, made: tuple[str, str, int, int, float]) -> None:
    seen, found = script(page, "batches", "numbers(given[0])", state(figures.batches(*made))), goal(*made)
    assert seen["now"] == pytest.approx(asdict(found.now))
    assert seen["best"] == (pytest.approx(asdict(found.best)) if found.best else None)
    assert seen["fits"] == found.fits


@pytest.mark.parametrize("made", [(80, 64, 8, 128, 8192, 400e9), (61, 128, 1, 192, 1 << 20, 10e9)])
def test_sequences_in_the_cache(page: Page, made: tuple[int, int, int, int, int, float]) -> None:
    seen = script(page, "caches", "numbers(given[0])", state(figures.caches(*made)))
    assert seen == {kind: pytest.approx(value) for kind, value in cached(*made).items()}


@pytest.mark.parametrize(
    ("interval", "cost", "mtbf", "restart"),
    [(3600.0, 60.0, 10800.0, 300.0), (10.0, 1.0, 600.0, 0.0), (4e5, 1200.0, 2.6e6, 21600.0)],
)
def test_goodputs(page: Page, interval: float, cost: float, mtbf: float, restart: float) -> None:
    seen = script(page, "goodput", "numbers(given[0])", state(figures.goodput(interval, cost, mtbf, restart)))
    young = young_daly(cost, mtbf)
    assert seen["young"] == pytest.approx(young)
    assert seen["best"] == pytest.approx(best_interval(cost, mtbf))
    assert seen["first_order"] == pytest.approx(first_order(interval, cost, mtbf, restart))
    for name, time in (("now", interval), ("at_young", young)):
        assert seen[name] == pytest.approx([*vars(parts(time, cost, mtbf, restart)).values()])


@pytest.mark.parametrize("level", anomalies.STEPPED)
def test_interleaved_transactions(page: Page, level: str) -> None:
    draw = random.Random(level)
    for name, told in anomalies.SCENARIOS.items():
        orders = [told.order, *("".join(draw.choices("123", k=draw.randint(1, 30))) for _ in range(12))]
        given = state(figures.isolation(name, level))["scenarios"][name]
        seen = script(
            page, "isolation", "given[1].map((order) => play(given[0], order, given[2]))", given, orders, level
        )
        for order, one in zip(orders, seen, strict=True):
            found = play(told.texts, order, level, told.initial)
            assert one["steps"] == [asdict(step) for step in found.steps], order
            assert sorted(map(tuple, one["edges"])) == sorted(found.edges)
            assert (one["states"], one["final"], one["wrong"]) == (list(found.states), found.final, found.wrong)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_replicas_of_a_log(page: Page, acks: str) -> None:
    draw = random.Random(acks)
    for number in range(40):
        setting, now, steps = isr.Setting(acks, draw.randint(1, 3), draw.random() < 0.4), isr.State(), list[str]()
        for _ in range(number // 2):
            steps.append("send" if draw.random() < 0.3 else draw.choice(isr.actions(now)))
            now = isr.after(now, setting, steps[-1])
        seen = script(page, "replicas", "played(given[0], given[1])", asdict(setting), steps)
        assert seen == {**json.loads(json.dumps(asdict(now))), "lost": now.lost}, steps


@pytest.mark.parametrize("devices", [16, 96, 256, 4096])
def test_plans(page: Page, devices: int) -> None:
    model, cluster = replace(MODEL, batch=768), replace(CLUSTER, devices=devices)
    plans = [
        replace(PLAN, dp=devices // 16, tp=tp, pp=16 // tp, micro_batches=m, zero_stage=stage, recompute=again)
        for tp, m, stage, again in ((8, 1, 0, True), (16, 3, 1, False), (4, 1, 2, False), (1, 1, 3, True))
    ]
    for plan in plans:
        if model.batch % (plan.dp * plan.micro_batches):
            continue
        made = state(figures.plans(model, replace(cluster, memory=800e9), plan))
        seen = script(
            page, "plans", "(({ plans, ...rest }) => rest)(numbers(given[0]))", {**made, "memory": cluster.memory}
        )
        one = planner.judged(model, cluster, plan)
        told = seen["mine"]["states"], seen["mine"]["activations"], *seen["mine"]["parts"]
        assert told == pytest.approx((one.states, one.activations, *one.parts.values()))
        assert (seen["legal"], seen["fitting"]) == planner.counted(model, cluster)
        if seen["fitting"]:
            best = planner.best(model, cluster)
            assert {name: seen["best"][name] for name in asdict(best.plan)} == asdict(best.plan)
            assert (seen["best"]["seconds"], seen["best"]["memory"]) == pytest.approx((best.seconds, best.memory))


# ---- without a kernel


def test_collectives_are_moved_by_keys(show: Callable[[Any, str], Page]) -> None:
    page = show(figures.collectives(), "collectives")
    said = page.locator(".said")
    expect(said).to_contain_text("The ring is faster than the tree above 2.27 MB.")
    page.get_by_label("ranks N").focus()
    page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("on 128 ranks")
    expect(said).to_contain_text("The ring is faster than the tree above 3.99 MB.")
    page.get_by_label("size S").focus()
    page.keyboard.press("End")
    expect(page.locator("tr.marked")).to_contain_text("hierarchical")
    page.get_by_text("Answer").click()
    expect(page.get_by_text("With 64 ranks the ring is faster above 2.3 MB")).to_be_visible()


def test_passes_are_moved_by_keys_and_mouse(show: Callable[[Any, str], Page]) -> None:
    page = show(figures.pipeline(), "pipeline")
    said = page.locator(".said")
    page.get_by_label("schedule").select_option("GPipe")
    expect(page.get_by_role("row", name="activations")).to_have_text("activations kept at most8888")
    page.get_by_label("schedule").select_option("your own")
    expect(said).to_contain_text("your own: 30 s a step. Each stage is idle for 20.0 %")

    page.locator('[data-id="0:F0"]').focus()  # the first pass of the lane above; down to the last stage, and to its W0
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowLeft")
    expect(said).to_contain_text("Not there: on each stage micro-batch 0 goes forward (F), then backward (B)")
    page.keyboard.press("ArrowRight")
    expect(page.locator('[data-id="3:W0"]')).to_be_focused()
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator('[data-id="3:W0"]')).to_be_focused()
    assert lane(page, 3)[:5] == ["F0", "B0", "F1", "W0", "B1"]

    drag(page, '[data-id="3:W0"]', '[data-id="3:B1"]')
    assert lane(page, 3)[:5] == ["F0", "B0", "F1", "B1", "W0"]
    drag(page, '[data-id="0:F4"]', '[data-id="0:F0"]')
    assert lane(page, 0)[:3] == ["F0", "F4", "F1"]


def test_a_zero_bubble_schedule_is_found_by_hand(show: Callable[[Any, str], Page]) -> None:
    page = show(figures.pipeline("zb-h1"), "pipeline-zb-h1")
    expect(page.locator(".said")).to_contain_text("ZB-H1: 27 s a step. Each stage is idle for 11.1 %")
    expect(page.get_by_role("row", name="activations")).to_have_text("activations kept at most4444")
    page.get_by_label("schedule").select_option("interleaved 1F1B")
    page.get_by_label("micro-batches m").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".said")).to_contain_text("that the 4 stages divide, and 7 is none")


def lane(page: Page, stage: int) -> list[str]:
    found = page.locator(f'[data-id^="{stage}:"]')
    return [str(each.get_attribute("data-id")).split(":")[1] for each in found.all()]


def drag(page: Page, what: str, onto: str) -> None:
    """To the right half of the other one."""
    start, end = page.locator(what).bounding_box(), page.locator(onto).bounding_box()
    assert start
    assert end
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    page.mouse.down()
    page.mouse.move(end["x"] + end["width"] * 0.8, end["y"] + end["height"] / 2, steps=4)
    page.mouse.up()


def test_sharding_is_moved_by_keys(show: Callable[[Any, str], Page]) -> None:
    page = show(figures.sharding(), "sharding")
    said = page.locator(".said")
    expect(said).to_contain_text("Of these ZeRO 1 sends least: 24.5 GB a step.")
    page.get_by_label("micro-batches A").focus()
    page.keyboard.press("Home")
    expect(said).to_contain_text("ZeRO 1 and ZeRO 2 and FSDP kept send least")
    page.get_by_label("bytes a parameter").select_option("all bf16, Adam: 2 + 2 + 4")
    expect(said).to_contain_text("These fit, before activations: DDP,")


def test_goodput_is_moved_by_keys(show: Callable[[Any, str], Page]) -> None:
    page = show(figures.goodput(), "goodput")
    said = page.locator(".said")
    expect(said).to_contain_text("T = 1 h: goodput 80.4 %. At √(2CM) = 19 min it is 87.4 %")
    page.get_by_label("MTBF of the job M").focus()
    page.keyboard.press("ArrowLeft")
    expect(said).to_contain_text("At √(2CM) = 15.5 min")
    page.get_by_role("button", name="T = √(2CM)").press("Enter")
    expect(said).to_contain_text("T = 15.5 min")


def test_a_plan_is_moved_by_keys(show: Callable[[Any, str], Page]) -> None:
    page = show(figures.plans(), "plans")
    said = page.locator(".said")
    expect(said).to_contain_text("Yours, dp 8: 12.6 s and 37.6 GB, 62 % more than the best.")
    page.get_by_label("recompute each layer").press("Space")
    expect(said).to_contain_text("Yours, dp 8: 9.5 s and 79.9 GB")
    page.get_by_label("pipeline stages p").focus()
    page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("Not legal: tp × pp = 40 does not divide the 256 devices.")
    page.get_by_role("button", name="Take the best plan").press("Enter")
    expect(said).to_contain_text("Yours, dp 32: 7.78 s and 59.2 GB, 0 % more than the best.")


def test_serving_is_moved_by_keys(show: Callable[[Any, str], Page]) -> None:
    page = show(figures.batches(), "batches")
    said = page.locator(".said")
    expect(said).to_contain_text("The largest batch within the goal is 147. 162 sequences fit")
    page.get_by_label("goal, time per token").focus()
    page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("162 sequences fit into the memory, so the memory ends the growth")
    page = show(figures.roofline(), "roofline")
    expect(page.locator(".said")).to_contain_text("The roofs cross at 295.")
    page = show(figures.caches(), "caches")
    expect(page.locator(".said")).to_contain_text("8.0 times less than plain attention, MLA 28.4 times less")


def test_transactions_are_stepped(show: Callable[[Any, str], Page]) -> None:
    page = show(figures.isolation(), "isolation")
    marked = page.locator("tr.marked")
    expect(marked).to_contain_text("G2-item: write skew")
    page.get_by_label("isolation level").select_option("ssi")
    expect(marked).to_contain_text("T2")
    page.get_by_role("button", name="start over").click()
    for _ in range(4):
        page.get_by_role("button", name="T1 steps").click()
    expect(page.locator(".rankup-figure svg rect")).to_have_count(4)
    expect(marked).to_contain_text("-")
    page.get_by_label("what they do").select_option("lost update")
    expect(page.locator(".said")).to_contain_text("Two deposits into one account.")


def test_replicas_are_stepped(show: Callable[[Any, str], Page]) -> None:
    page = show(figures.replicas(), "replicas")
    said = page.locator(".said")
    expect(said).to_contain_text("The producer was told that 2 is stored.")
    page.get_by_role("button", name="start over").click()
    page.locator("select").select_option("all")
    for name in ("b2 falls behind", "b3 falls behind", "send a message", "b1 is wrecked", "b1 restarts"):
        page.get_by_role("button", name=name).click()
    expect(said).to_contain_text("The producer was told that 1 is stored.")
