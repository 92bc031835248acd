"""Figures of systems: their scripts' numbers against Python's, and moved by keys and mouse without a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jupyter
import pytest
from moving import script, shown, state
from playwright.sync_api import Page, expect

from courselib import batching, figures
from courselib.figures.partition import REQUESTS, answered
from courselib.figures.rollouts import played
from courselib.figures.staleness import trained
from courselib.rollouts import lengths

Shown = Callable[[Any, str], Page]


@pytest.fixture
def moved(page: Page, tmp_path: Path) -> Iterator[Shown]:
    with shown(page, tmp_path) as show:
        yield show


@pytest.mark.parametrize(
    ("rate", "batch", "wait"), [(400.0, 16, 0.0), (100.0, 16, 0.02), (80.0, 1, 0.0), (900.0, 8, 0.005)]
)
def test_latencies_are_those_of_python(page: Page, rate: float, batch: int, wait: float) -> None:
    made = state(figures.latency(rate, batch=batch, wait=wait))
    seen = script(page, "latency", "serve(given[0].gaps, given[0])", made)
    run = batching.serve(rate, batch, wait, lambda size: 0.010 + 0.001 * size, 2000)
    expected = {"mean": run.mean, "p99": run.latency(0.99), "throughput": run.rate, "size": 2000 / len(run.sizes)}
    assert {name: seen[name] for name in expected} == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("workers", "way", "rate", "scaled"),
    [(8, 0, 0.3, False), (1, 0, 5.0, False), (4, 2, 0.25, False), (16, 1, 3.0, True)],
)
def test_losses_are_those_of_python(page: Page, workers: int, way: int, rate: float, scaled: bool) -> None:
    made = state(figures.staleness(rate, workers=workers, way=way, scaled=scaled))
    task = "problem(given[0].points, given[0].labels, given[0].least)"
    seen = script(page, "staleness", f"trained({task}, given[0])", made)
    run = trained(workers, way, rate, scaled)
    assert [time for time, _ in seen] == pytest.approx([time for time, _ in run])
    assert [excess for _, excess in seen] == pytest.approx([excess for _, excess in run], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("ahead", "generators", "seconds", "spread"), [(0, 4, 0.5, 0.8), (1, 3, 4, 0.0), (1000, 8, 2, 1.1)]
)
def test_generators_wait_as_in_python(page: Page, ahead: int, generators: int, seconds: float, spread: float) -> None:
    made = state(figures.rollouts(ahead, generators=generators, seconds=seconds, spread=spread))
    seen = script(page, "rollouts", "numbers(given[0])", made)
    run = played([round(each, 4) for each in lengths(400, spread)], generators, ahead, seconds)
    assert (seen["end"], seen["oldest"]) == (pytest.approx(run.end), max(run.ages))
    assert (seen["generators"], seen["trainer"]) == (pytest.approx(run.generators_idle), pytest.approx(run.idle(1)))


@pytest.mark.parametrize("mode", ["CP", "AP", "followers"])
def test_requests_end_as_in_the_store(page: Page, mode: str) -> None:
    made = state(figures.partition(mode))
    for since, until in [(0.8, 3.4), (1.4, 1.5), (2.1, 4.0), (0.0, 6.0), (2.0, 2.0), (4.6, 5.4)]:
        cut = {**made, "since": since, "until": until}
        seen = script(page, "partition", "run(given[0], given[0]).found", cut)
        found = answered(mode, since, until)
        assert [each["what"] for each in seen] == [each.what for each in found], (since, until)
        assert [each["got"] for each in seen if each["kind"] == "read"] == [
            each.value for each, (_, value, _) in zip(found, REQUESTS, strict=True) if value is None
        ]
        assert [each["at"] for each in seen] == pytest.approx([each.at for each in found])


def test_latency_is_moved_by_keys(moved: Shown) -> None:
    page = moved(figures.latency(), "latency")
    page.get_by_label("batch size limit").focus()
    page.keyboard.press("Home")
    expect(page.locator(".said")).to_contain_text("The queue grows for as long as this lasts.")
    page.keyboard.press("End")
    expect(page.locator(".said")).to_contain_text("99 % of the answers come within")


def test_staleness_is_moved_by_keys(moved: Shown) -> None:
    page = moved(figures.staleness(), "staleness")
    expect(page.get_by_role("row", name="age of each gradient")).to_contain_text("7 updates")
    page.get_by_label("workers").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("row", name="age of each gradient")).to_contain_text("15 updates")
    page.get_by_label("divide the rate").check()
    expect(page.locator(".said")).to_contain_text("The rate of each update is 0.155 times")


def test_generators_are_moved_by_keys(moved: Shown) -> None:
    page = moved(figures.rollouts(), "rollouts")
    expect(page.get_by_role("row", name="oldest sample")).to_contain_text("3 versions")
    page.get_by_label("batches ahead").focus()
    page.keyboard.press("Home")
    expect(page.get_by_role("row", name="oldest sample")).to_contain_text("0 versions")
    expect(page.locator(".said")).to_contain_text("Generators idle 43 %")


def test_the_partition_is_moved_by_keys_and_dragged(moved: Shown) -> None:
    page = moved(figures.partition(), "partition")
    begins, heals = page.get_by_role("slider", name="begins"), page.get_by_role("slider", name="heals")
    begins.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("PageDown")
    expect(begins).to_have_attribute("aria-valuenow", "0.2")
    expect(begins).to_be_focused()
    page.keyboard.press("End")
    expect(page.locator(".said")).to_contain_text("No partition.")
    page.keyboard.press("Home")
    at = heals.bounding_box()
    assert at
    page.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
    page.mouse.down()
    page.mouse.move(at["x"] + 2000, at["y"] + 10)
    page.mouse.up()
    expect(page.locator(".said")).to_contain_text("Cut from 0 s to 6 s.")
    page.get_by_label("who may answer").select_option("CP")
    expect(page.get_by_role("row", name="in the partition")).to_have_text("in the partition70")


LEARNT = (
    "B to coord, vote, yes true: arrives", "coord to A, commit: arrives", "coord: crash",
    "B: timer doubt, in 0.5 s goes off", "B to A, how?: arrives", "A to B, state, state committed: arrives",
)  # fmt: skip
TWICE = (
    "n1: timer election", "n1 to n2, elect me, term 1: arrives", "n2 to n1, vote, term 1: arrives", "n2: crash",
    "n2: restart", "n3: timer election", "n3 to n2, elect me, term 1: arrives", "n2 to n3, vote, term 1: arrives",
)  # fmt: skip


def test_two_phase_commit_is_stepped_off_the_recorded_run(moved: Shown) -> None:
    page = moved(figures.two_phase_commit(), "two-phase-commit")
    told = page.locator(".told")
    page.get_by_label("step", exact=True).focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    expect(told).to_have_text("coord crashes.")
    expect(page.get_by_label(LEARNT[0])).to_be_disabled()
    page.keyboard.press("ArrowLeft")
    for label in LEARNT:
        page.get_by_label(label).focus()
        page.keyboard.press("Enter")
    expect(told).to_contain_text("B gets “state, state committed” from A")
    expect(page.locator(".node").last).to_contain_text("committed")
    expect(page.locator("output")).to_have_text("step 11 of 11")
    jupyter.picture(page, "two-phase-commit-learnt")
    page.get_by_label("one step back").click()
    expect(page.locator("output")).to_have_text("step 10 of 11")


def test_two_leaders_in_a_term_are_found(moved: Shown) -> None:
    page = moved(figures.election_in_terms(), "election-in-terms")
    for label in TWICE:
        page.get_by_label(label).click()
    expect(page.locator(".bad")).to_have_text("n1 and n3 both lead in term 1")
    jupyter.picture(page, "election-in-terms-found")
