"""What spark_mllib fits and predicts, drawn by a formula, and the area under a curve."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass

from grader.jobs.sparks.engine import Fit, Frame

TRAIN, TEST = 400, 400


@dataclass(frozen=True)
class Data:
    """Rows to fit with and to predict, and the area under ROC of the formula behind the latter."""

    fit: Fit
    area: float
    labels: tuple[str, str]


FEATURES, LABEL = ["age", "spent", "visits", "delay"], "label"
SCALES = {"age": (12.0, 40.0), "spent": (9000.0, 20_000.0), "visits": (0.02, 0.1), "delay": (1.5, -3.0)}


def data(rng: random.Random) -> Data:
    """Customers who differ in four things that matter, of very different size, and in one that does not."""
    labels = rng.choice((("stays", "leaves"), ("no", "yes"), ("bad", "good")))
    schema = ", ".join(f"{name} DOUBLE" for name in FEATURES) + f", noise DOUBLE, {LABEL} STRING"

    def frame(count: int) -> tuple[Frame, list[tuple[float, int]]]:
        rows, scored = [], []
        for _ in range(count):
            values = {name: rng.gauss(0, 1) for name in FEATURES}
            score = sum(values.values()) + 0.5
            one = int(rng.random() < 1 / (1 + math.exp(-2 * score)))
            row = {name: round(SCALES[name][0] * x + SCALES[name][1], 6) for name, x in values.items()}
            rows.append(json.dumps({**row, "noise": rng.random(), LABEL: labels[one]}))
            scored.append((score, one))
        return Frame("\n".join(rows) + "\n", schema), scored

    train, _ = frame(TRAIN)
    test, scored = frame(TEST)
    return Data(Fit(train, test), area(scored), labels)


def area(scored: list[tuple[float, int]]) -> float:
    """The area under ROC: how often one of class 1 has a higher score than one of class 0, ties half."""
    ones, zeros = ([score for score, one in scored if one == which] for which in (1, 0))
    wins = sum((a > b) + (a == b) / 2 for a in ones for b in zeros)
    return wins / (len(ones) * len(zeros)) if ones and zeros else 0.0
