"""The tour of Ray in one start, and Spark beside it: what each station must have seen."""

from __future__ import annotations

import json

import labs
import pytest
from often import on_day

pytestmark = on_day(1)
LAB = labs.FOLDER / "ray_tour.py"


def test_each_station_of_ray_sees_what_the_chapter_says() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--json", seconds=280))["figures"]
    assert figures["loop"] >= 4 * 0.3  # one nap after another
    assert figures["writeable"] == 0
    assert (figures["in_flight"], figures["squares"]) == (4, sum(number * number for number in range(60)))
    assert (figures["counted"], figures["counted_then"]) == (5, 1)
    assert (figures["died_ran"], figures["raised_ran"]) == (2, 1)
    assert figures["ray_total"] > 0
    assert (figures["trained"], figures["same_weights"]) == ("500 500", 1)
    assert figures["refused"].startswith("Dataset shard for 'valid' not found")


def test_spark_sums_up_what_there_is() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--spark", "--json"))["figures"]
    assert figures["spark_total"] > 0


@pytest.mark.soak  # some minutes
def test_a_loop_that_never_reads_its_checkpoint_starts_from_the_beginning() -> None:
    figures = json.loads(labs.run_or_skip(LAB.with_name("ray_train_restarts.py"), "--json", seconds=600))["figures"]
    assert figures["never_read"] == 7 + 10
    assert 10 <= figures["read"] < 17  # the last checkpoint may not be registered yet when the worker dies
