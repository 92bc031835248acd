"""Models with fresh weights, what they predict, and what a server of theirs is asked for. No torch here: numpy alone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grader.exercise import Draw
from grader.ranks.program import Strided
from grader.worlds.cases import Case

Array = np.ndarray[Any, Any]
EPSILON = 1e-5  # of BatchNorm1d
RUINS = {  # what is the matter with a checkpoint: in the harness's words and in a sentence's
    "missing": "there is no file",
    "empty": "the file is empty",
    "cut": "the second half of the file is missing",
    "text": "the file is a line of text",
    "list": "the file holds a list",
    "no sizes": 'the file holds no "sizes"',
    "no model": 'the file holds no "model"',
    "a key less": "the state dict lacks a key",
    "a key more": "the state dict has a key that the model does not have",
    "a shape": "a tensor of the state dict has another shape than the model's",
    "other sizes": '"sizes" do not fit the tensors',
    "sizes that are none": '"sizes" is a string',
    "no tensor": "one value of the state dict is a string",
}


@dataclass(frozen=True, eq=False)
class Net:
    """A model in evaluation mode; `state` as torch names it, with `prefix`."""

    sizes: tuple[int, ...]
    state: dict[str, Array]

    def predict(self, rows: Array) -> Array:
        """[rows, in] -> [rows, out], in double precision. Ioffe and Szegedy 2015, algorithm 2, for BatchNorm."""
        hidden = len(self.sizes) - 2
        for at in range(0, 4 * hidden, 4):
            rows = self._linear(at, rows)
            mean, var = self._of(at + 1, "running_mean"), self._of(at + 1, "running_var")
            rows = (rows - mean) / np.sqrt(var + EPSILON) * self._of(at + 1, "weight") + self._of(at + 1, "bias")
            rows = np.maximum(rows, 0)
        return self._linear(4 * hidden, rows)

    def _linear(self, at: int, rows: Array) -> Array:
        product: Array = rows @ self._of(at, "weight").T + self._of(at, "bias")
        return product

    def _of(self, at: int, name: str) -> Array:
        return self.state[f"{at}.{name}"].astype(np.float64)


def net(rng: np.random.Generator, *sizes: int) -> Net:
    """A model of these sizes that was trained, so to speak: its BatchNorms have seen data."""
    state: dict[str, Array] = {}

    def put(name: str, values: Array) -> None:
        state[name] = values.astype(np.float32)

    for number, (wide, out) in enumerate(itertools.pairwise(sizes)):
        at = 4 * number
        put(f"{at}.weight", rng.normal(0, 1.5 / np.sqrt(wide), (out, wide)))
        put(f"{at}.bias", rng.normal(0, 1, out))
        if number < len(sizes) - 2:
            put(f"{at + 1}.weight", rng.uniform(0.5, 2, out))
            put(f"{at + 1}.bias", rng.normal(0, 1, out))
            put(f"{at + 1}.running_mean", rng.normal(0, 1, out))
            put(f"{at + 1}.running_var", rng.uniform(0.3, 3, out))
            state[f"{at + 1}.num_batches_tracked"] = np.array(int(rng.integers(100, 9000)))
    return Net(tuple(sizes), state)


@dataclass(frozen=True, eq=False)
class Ask:
    """One request: what it is in words, and what must come: a status (`also` is as good), with predictions where they
    are right. A body's bytes that are no UTF-8 are surrogates."""

    what: str
    method: str = "POST"
    path: str = "/predict"
    body: str = ""
    status: int = 200
    right: Array | None = None
    patient: bool = False
    also: int = 0

    def told(self) -> dict[str, Any]:
        return {"method": self.method, "path": self.path, "body": self.body, "patient": self.patient}


@dataclass(frozen=True, eq=False)
class Plan:
    """What a server is asked for: groups of requests, those of a group at the same time."""

    groups: tuple[tuple[Ask, ...], ...]
    net: Net
    ruin: str = ""

    @property
    def asks(self) -> list[Ask]:
        return [ask for group in self.groups for ask in group]


HEALTH, READY = Ask("GET /health", "GET", "/health"), Ask("GET /ready", "GET", "/ready")
WAIT = Ask("GET /ready", "GET", "/ready", patient=True)
UNREADY = Ask("GET /ready", "GET", "/ready", status=503)


def predict(model: Net, rows: Array, what: str = "") -> Ask:
    """A good request: rows [n, in], sent as they are printed and read back so."""
    body = json.dumps({"inputs": rows.tolist()})
    right = model.predict(np.array(rows, np.float32).astype(np.float64))
    return Ask(what or ("1 row" if len(rows) == 1 else f"{len(rows)} rows"), body=body, right=right)


def _bad(what: str, body: str | Any) -> Ask:
    return Ask(what, body=body if isinstance(body, str) else json.dumps(body), status=422)


def _rows(rng: np.random.Generator, model: Net, count: int) -> Array:
    return np.round(rng.normal(0, 2, (count, model.sizes[0])), 3)


def _case(
    group: str, label: str, plan: Plan, lifespan: str = "on", mixed: bool = False, prefix: str = ""
) -> Case:  # fmt: skip
    names = [prefix + name for name in plan.net.state]
    tensors = [Strided.of(values) for values in plan.net.state.values()]
    told = [[ask.told() for ask in each] for each in plan.groups]
    arguments = ([*plan.net.sizes], names, tensors, plan.ruin, lifespan, mixed, told)
    return Case(group, label, (arguments,), expected=plan, by="serve")


def _one_by_one(model: Net, *asks: Ask) -> Plan:
    return Plan(tuple((ask,) for ask in (WAIT, *asks)), model)


def cases(draw: Draw) -> Iterator[Case]:
    """One case is one application on one checkpoint. Only those of `eval` have hidden layers, so that who forgets
    eval() loses that check's points and no others."""
    yield from _answers(draw.generator("answers"))
    yield from _eval(draw.generator("eval"))
    rng = draw.generator("prefix")
    model = net(rng, 6, 3)
    asks = [predict(model, _rows(rng, model, count)) for count in (1, 3)]
    yield _case("prefix", "Keys that begin with module.", _one_by_one(model, *asks), prefix="module.")
    rng = draw.generator("once")
    model = net(rng, 4, 3)
    single = [(predict(model, _rows(rng, model, 2)),) for _ in range(6)]
    yield _case("once", "Requests one after another", Plan(((WAIT,), *single), model))
    failing = replace_status(single[0][0], 503)
    again = Plan(((HEALTH,), (UNREADY,), (failing,), (UNREADY,), (failing,)), model, "cut")
    yield _case("once broken", "A checkpoint that was cut off", again)
    yield from _concurrent(draw.generator("concurrent"))
    yield from _bad_input(draw.generator("bad input"))
    yield from _ready(draw.generator("ready"))
    rng = draw.generator("safe")
    model = net(rng, 3, 2)
    plan = Plan(((HEALTH,), (UNREADY,), (replace_status(predict(model, _rows(rng, model, 1)), 503),)), model, "code")
    yield _case("safe", "A checkpoint that would run code when it is loaded", plan)
    rng = draw.generator("no lifespan")
    model = net(rng, 3, 2)
    plan = _one_by_one(model, READY, predict(model, _rows(rng, model, 2)))
    yield _case("no_lifespan", "A server that sends no lifespan events", plan, lifespan="off")


def replace_status(ask: Ask, status: int) -> Ask:
    """The same request, which must have another answer."""
    return replace(ask, status=status, right=None)


def _answers(rng: np.random.Generator) -> Iterator[Case]:
    model = net(rng, 3, 2)
    whole = rng.integers(-9, 9, (2, 3))
    asks = [predict(model, _rows(rng, model, count)) for count in (1, 5, 128)]
    asks += [predict(model, whole, "2 rows of integers"), predict(model, _rows(rng, model, 1) * 1000, "a large row")]
    asks += [predict(model, np.zeros((1, 3)), "a row of zeros")]
    yield _case("answers", "3 inputs, 2 outputs", _one_by_one(model, *asks))
    model = net(rng, 1, 1)
    asks = [predict(model, _rows(rng, model, count)) for count in (1, 2)]
    yield _case("answers", "1 input, 1 output", _one_by_one(model, *asks))


def _eval(rng: np.random.Generator) -> Iterator[Case]:
    for sizes in ((5, 16, 3), (4, 24, 24, 8, 2)):
        model = net(rng, *sizes)
        rows = _rows(rng, model, 6)
        one = predict(model, rows[:1])
        several = predict(model, rows)
        hidden = "1 hidden layer" if len(sizes) == 3 else f"{len(sizes) - 2} hidden layers"
        yield _case("eval", hidden[0].upper() + hidden[1:], _one_by_one(model, several, one, one, several, one))


def _concurrent(rng: np.random.Generator) -> Iterator[Case]:
    """The first group says whether the server is right at all; then come many together, of which two are bad."""
    model = net(rng, 4, 3)
    before = predict(model, _rows(rng, model, 1))
    together = [predict(model, _rows(rng, model, 1 + number % 3)) for number in range(10)]
    together[3] = _bad("a row that is too long", {"inputs": [[1.0] * 5]})
    together[7] = _bad("a row that is too short", {"inputs": [[1.0] * 3]})
    again = [predict(model, _rows(rng, model, 1)) for _ in range(8)]
    groups = ((WAIT,), (before,), tuple(together), tuple(again))
    yield _case("concurrent", "Requests that come together", Plan(groups, model), mixed=True)


def _bad_input(rng: np.random.Generator) -> Iterator[Case]:
    model = net(rng, 3, 2)
    good = [predict(model, _rows(rng, model, 1)) for _ in range(4)]
    row = [1.5, -2.0, 0.25]
    rows: Sequence[Ask] = (
        _bad("a row that is too short", {"inputs": [row[:2]]}),
        _bad("a row that is too long", {"inputs": [[*row, 4.0]]}),
        _bad("one row of three too short", {"inputs": [row, row[:2], row]}),
        _bad("no rows", {"inputs": []}),
        _bad("a row without numbers", {"inputs": [[]]}),
        _bad("one row, not a list of rows", {"inputs": row}),
        _bad("rows one level too deep", {"inputs": [[row]]}),
    )
    values = (
        _bad("a word in a row", {"inputs": [["many", 1.0, 2.0]]}),
        _bad("null in a row", {"inputs": [[None, 1.0, 2.0]]}),
        _bad("an object in a row", {"inputs": [[{"x": 1}, 1.0, 2.0]]}),
        _bad("NaN in a row", '{"inputs": [[NaN, 1.0, 2.0]]}'),
        _bad("NaN at the end of a row", '{"inputs": [[1.0, 2.0, NaN]]}'),
        _bad("a word and NaN in a row", '{"inputs": [["many", 1.0, NaN]]}'),
        _bad("NaN, and a row too short", '{"inputs": [[NaN, 1.0]]}'),
        _bad("NaN for inputs", '{"inputs": NaN}'),
    )
    bodies = (
        _bad("JSON that is cut off", '{"inputs": [[1.0, 2.0, '),
        _bad("no JSON", "inputs=1,2,3"),
        _bad("a list, not an object", [row]),
        _bad("no inputs", {"rows": [row]}),
        _bad("null for inputs", {"inputs": None}),
        _bad("a number for inputs", {"inputs": 3}),
        _bad("half of a surrogate pair", '{"inputs": "\\ud800"}'),
        replace(_bad("bytes that are no UTF-8", '{"inputs": "\udcff"}'), also=400),  # which is FastAPI's own answer
    )
    yield _case(
        "bad_input", "Bad requests", _one_by_one(model, good[0], *rows, good[1], *values, good[2], *bodies, good[3])
    )


def _ready(rng: np.random.Generator) -> Iterator[Case]:
    model = net(rng, 3, 2)
    good = predict(model, _rows(rng, model, 1))
    yield _case("ready", "A checkpoint that is whole", _one_by_one(model, HEALTH, READY, good))
    asks = ((HEALTH,), (UNREADY,), (replace_status(good, 503),), (UNREADY,), (HEALTH,))
    for ruin, words in RUINS.items():
        yield _case("ready", words[0].upper() + words[1:], Plan(asks, model, ruin))
