"""Judges ParameterServer, train and snapshot: what became of a model's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader import says
from grader.exercises.common import checks, plain
from grader.exercises.mend_the_tutorial import training
from grader.exercises.mend_the_tutorial.training import Array
from grader.ranks.program import CallResult
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

Gradients = Sequence[Any]  # arrays, or None
PARTS = ("left.weight", "left.bias", "right.weight", "right.bias", "idle.weight", "idle.bias")
STATE = ("first.weight", "second.weight", "running", "steps", "seen")


def _same(got: Any, wanted: Array, exact: bool = False) -> bool:
    if got is None or got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    close = 1e-6 if wanted.dtype == np.float64 else 1e-5
    return bool(np.array_equal(got, wanted) if exact else np.allclose(got, wanted, rtol=close, atol=close * 1e-2))


def _all_same(got: Sequence[Any], wanted: Sequence[Array]) -> bool:
    return len(got) == len(wanted) and all(map(_same, got, wanted))


# ---- ParameterServer


def parameter_server(bench: RankBench) -> Outcome:
    """After each apply() the model's own parameters have made a step of plain SGD, and stay leaves."""
    for case, result in bench.calls("parameter_server"):
        values, gradients, rates = case.expected
        found = result.returned[0]
        rounds = found if isinstance(found, list) and len(found) == len(rates) else [{}] * len(rates)
        right = list(values)
        for number, after in enumerate(rounds):
            before = right
            right = _stepped(right, gradients[number], rates[number])
            got = [checks.array(each) for each in after.get("values", ())]
            _in_place(bench, case, number, after, got, before)
            for place, wanted in enumerate(right):
                if place >= len(got) or not _same(got[place], wanted):
                    why = _server_why(got, values, gradients[: number + 1], rates, place)
                    _not_stepped(bench, case, number, place, got, wanted, why)
    return bench.picture("parameter_server", 1)


def _stepped(values: Sequence[Array], gradients: Gradients, lr: float) -> list[Array]:
    pairs = zip(values, gradients, strict=True)
    return [value if each is None else (value - lr * each).astype(value.dtype) for value, each in pairs]


def _in_place(
    bench: RankBench, case: Case, number: int, after: dict[str, Any], got: Sequence[Any], before: list[Array]
) -> None:
    if after.get("same") != [True] * len(before):
        text = (
            f"With {case.label}: after call {number + 1} of apply(), the model has another parameter object than before. "
            "An optimizer or DDP that holds the old one no longer sees it. Change the parameters in place, under "
            "torch.no_grad()."
        )
        raise bench.lost(case, "wrong_result", text, 0, "the same parameters", "other ones")
    if after.get("leaves") != [True] * len(before):
        text = (
            f"With {case.label}: after call {number + 1} of apply(), a parameter is no longer a leaf that requires "
            "gradients. The next backward() cannot give it one. Change the parameters in place, under torch.no_grad()."
        )
        raise bench.lost(case, "wrong_result", text, 0, "leaves that require gradients", "others")


def _not_stepped(
    bench: RankBench, case: Case, number: int, place: int, got: Sequence[Any], wanted: Array, why: str
) -> None:
    first = got[place] if place < len(got) and got[place] is not None and got[place].shape == wanted.shape else None
    one, other = ("something else", "")
    if first is not None:
        at = int(np.flatnonzero(~np.isclose(first, wanted, rtol=1e-6, atol=1e-9).reshape(-1))[:1].sum())
        one, other = plain.apart(float(first.reshape(-1)[at]), float(wanted.reshape(-1)[at]))
    numbers = f": a value is {one} instead of {other}" if other else ""
    text = f"With {case.label}: after call {number + 1} of apply(), parameter {place} is wrong{numbers}. {why}"
    raise bench.lost(case, "wrong_result", text, 0, other or "the stepped parameter", one)


def _server_why(
    got: Sequence[Any], start: Sequence[Array], gradients: Sequence[Gradients], rates: Sequence[float], place: int
) -> str:
    """What a wrong parameter is, where the numbers say so."""
    now = list(start)
    for each, lr in zip(gradients[:-1], rates, strict=False):
        now = _stepped(now, each, lr)
    lr, last = rates[len(gradients) - 1], gradients[-1][place]
    mine = got[place] if place < len(got) else None
    seen = [each[place] for each in gradients if each[place] is not None]
    if last is None:
        before = [now[place] - lr * each for each in (seen[-1], sum(seen))] if seen else []
        if any(_same(mine, each.astype(now[place].dtype)) for each in before):
            return "Its gradient is None in this call, and it moved by gradients of earlier calls. Leave it alone."
        return "Its gradient is None in this call. Leave it alone."
    if _same(mine, now[place]):
        return _unchanged(got, now, gradients)
    if _same(mine, (now[place] + lr * last).astype(now[place].dtype)):
        return "It moved along its gradient. Plain SGD subtracts lr times the gradient."
    if len(seen) > 1 and _same(mine, (now[place] - lr * sum(seen)).astype(now[place].dtype)):
        return "It moved by the sum of all gradients so far. Use this call's gradient alone."
    for call, rate in enumerate(rates[: len(gradients) - 1], 1):
        if _same(mine, (now[place] - rate * last).astype(now[place].dtype)):
            return f"It moved by {rate:g} times its gradient, and {rate:g} was the lr of call {call}. In this call lr is {lr:g}."
    return "Subtract lr times this call's gradient of this parameter, and nothing else."


def _unchanged(got: Sequence[Any], now: Sequence[Array], gradients: Sequence[Gradients]) -> str:
    """What to say of a parameter that this call did not change: whether it changed others, and whether earlier calls did."""
    to_step = [place for place, each in enumerate(gradients[-1]) if each is not None and place < len(got)]
    if not all(_same(got[place], now[place]) for place in to_step):
        return "This call did not change it, although its gradient is not None. Step each parameter whose gradient is not None."
    if len(gradients) > 1:
        return "Earlier calls of apply() changed the parameters, and this call changed none of them. Each call is one step."
    return (
        "No parameter of the model has changed. Write into the model's own parameters, for example with p.sub_() under "
        "torch.no_grad(). A line such as `p = p - lr * g` changes no parameter: it gives the name p to a new tensor."
    )


# ---- train


def train(bench: RankBench) -> Outcome:
    """All ranks have the parameters of one process with the mean gradients, and return the mean of all losses."""
    for case, result in bench.calls("train"):
        checks.allowed(bench, case, result)
        parameters, how, batches = case.expected
        after, losses = training.train(parameters, how, batches)
        for rank in range(case.ranks):
            got = [checks.array(each) for each in checks.field(result, rank, "parameters") or ()]
            if not _all_same(got, after):
                _drifted(bench, case, result, rank, got, after)
            _mean_loss(bench, case, rank, checks.field(result, rank, "returned"), losses)
    return bench.picture("train", 2)


def _drifted(bench: RankBench, case: Case, result: CallResult, rank: int, got: list[Any], after: list[Array]) -> None:
    wrong = next((name for name, one, other in zip(PARTS, got, after, strict=False) if not _same(one, other)), PARTS[0])
    why = _train_why(case, got, rank) or _apart(case, result, PARTS.index(wrong))
    text = (
        f"With {case.label}: after {len(case.expected[2][0])} steps, {wrong} on rank {rank} is not what one process gets "
        f"from the mean of the ranks' gradients. {why}"
    )
    raise bench.lost(case, "wrong_result", text, rank, "equal to 1e-6", f"{wrong} differs")


def _train_why(case: Case, got: list[Any], rank: int) -> str:
    parameters, how, batches = case.expected
    for told, combine in training.MISTAKES:
        if _all_same(got, training.train(parameters, how, batches, combine)[0]):
            return told
    if _all_same(got, training.train(parameters, how, [batches[rank]])[0]):
        return (
            "These are the parameters of training on this rank's batches alone. Average the gradients before each step."
        )
    if _all_same(got, training.train(parameters, how, batches, keep=True)[0]):
        return "Gradients of earlier steps were added to those of later ones. Clear the gradients in every step."
    if len(got) == len(PARTS) and not all(map(_same, got[4:], parameters[4:])):
        return (
            f"{PARTS[4]} has a gradient on no rank, and yet it changed: weight decay moves a parameter whose gradient is "
            "zeros. Leave its gradient None."
        )
    if _all_same(got, parameters):
        return "They are unchanged. Call optimizer.step() when .grad holds the averaged gradients."
    if _all_same(got, training.train(parameters, how, batches, zeros=True)[0]):
        return (
            "No rank has a gradient for it in the last step, and yet that step changed it: its gradient was zeros, and "
            "momentum and weight decay moved it. Clear gradients to None, as optimizer.zero_grad() does by default."
        )
    return ""


def _apart(case: Case, result: CallResult, place: int) -> str:
    """What to do about a parameter of which it is not known where it comes from: do at least all ranks have the same?"""
    everybody = [checks.field(result, rank, "parameters") or () for rank in range(case.ranks)]
    values = [checks.array(each[place]) for each in everybody if place < len(each)]
    batches = case.expected[2]
    for step in range(len(batches[0])):
        having = [rank for rank, mine in enumerate(batches) if training.uses(mine[step], place)]
        if 0 < len(having) < case.ranks and not all(_same(values[0], each) for each in values):
            return (
                f"The ranks do not even agree on {PARTS[place]}. In step {step}, only {says.names(having)} "
                f"{'has' if len(having) == 1 else 'have'} a gradient for it. All ranks must call the all-reduce for it, the "
                "others with zeros, and all ranks must step with the mean."
            )
    return "In each step, clear the gradients, call backward(), average each gradient over the ranks, and step."


def _mean_loss(bench: RankBench, case: Case, rank: int, returned: Any, losses: list[list[float]]) -> None:
    batches = case.expected[2]
    right = training.mean_loss(losses, batches)
    if not isinstance(returned, float):
        told = plain.in_words(returned)
        text = f"With {case.label}: train on rank {rank} returned {told}. Return the mean loss as a float."
        raise bench.lost(case, "wrong_result", text, rank, "a float", told)
    if np.isclose(returned, right, rtol=1e-5):
        return
    mine = [step[rank] for step in losses]
    sizes = [len(x) for x, _ in batches[rank]]
    one, other = plain.apart(returned, right)
    known = (
        (np.average(mine, weights=sizes), f"{one} is the mean over this rank's own samples. Add the sums and the counts of all ranks."),
        (np.mean(mine), f"{one} is the mean of this rank's batch losses. Weight each by its batch size, and average over the samples of all ranks."),
        (np.mean(losses), f"{one} is the mean of all batch losses, which counts a small batch like a large one. Weight each by its size."),
        (np.mean([np.average([step[r] for step in losses], weights=[len(x) for x, _ in batches[r]]) for r in range(case.ranks)]),
         f"{one} is the mean of the ranks' means, which counts a rank with few samples like one with many. Add the sums and the counts of all ranks."),
        (np.mean([float(np.average(step)) for step in losses[-1:]]), f"{one} is the last step's mean. Return the mean over all steps."),
    )  # fmt: skip
    why = next((text for value, text in known if np.isclose(returned, value, rtol=1e-6)), "")
    why = why or "Weight each batch's loss, as it was before its step, by its number of samples, over all ranks."
    text = f"With {case.label}: train on rank {rank} returned {one}. The mean over all samples of all ranks is {other}. {why}"
    raise bench.lost(case, "wrong_result", text, rank, other, one)


# ---- snapshot


def snapshot(bench: RankBench) -> Outcome:
    """All of the state, in storage that nothing else uses."""
    for case, result in bench.calls("snapshot"):
        weight, running, steps, seen = case.expected
        right = dict(zip(STATE, (weight, weight, running, steps, seen), strict=True))
        names, values = checks.field(result, 0, "names"), checks.field(result, 0, "values")
        if not isinstance(names, list) or not isinstance(values, list):
            told = says.short(str(checks.field(result, 0, "type")))
            text = f"snapshot returned a value of type {told}. Return a dict from the names of state_dict() to tensors."
            raise bench.lost(case, "wrong_result", text, 0, "a dict of tensors", told)
        if set(names) != set(right):
            gone, more = [each for each in STATE if each not in names], [each for each in names if each not in right]
            text = (
                f"The snapshot {'lacks' if gone else 'also has'} {says.listed(gone or more)}. Keep exactly what "
                "state_dict() has: parameters and persistent buffers, also a weight that has two names."
            )
            raise bench.lost(case, "wrong_result", text, 0, says.listed(STATE), says.listed(names))
        now = [checks.array(each) for each in checks.field(result, 0, "now") or ()]
        later = [_later(right[name]) for name in sorted(right)]
        if len(now) != len(later) or not all(_same(a, b, exact=True) for a, b in zip(now, later, strict=True)):
            text = "The model could not be changed in place after snapshot() had returned. Leave torch's own methods as they are."
            raise bench.lost(case, "wrong_result", text, 0, "a model that goes on training", "one that does not change")
        for name, value in zip(names, values, strict=True):
            got = checks.array(value)
            if not _same(got, right[name], exact=True):
                _changed(bench, case, name, got, right[name])
        for what, told in (
            ("joined", "requires gradients. Detach it, so that it does not belong to autograd's graph"),
            ("shared", "shares its storage with the model: writing into the snapshot changed the model. Clone it"),
        ):
            found = checks.field(result, 0, what)
            if found != []:
                name = found[0] if isinstance(found, list) else STATE[0]
                raise bench.lost(
                    case, "wrong_result", f"The snapshot's {name} {told}.", 0, "a copy of its own", f"{name}"
                )
    return bench.picture("snapshot", 1)


def _later(value: Array) -> Array:
    """What the harness makes of a tensor of the model after the snapshot."""
    return ~value if value.dtype == bool else (value * 2 + 7).astype(value.dtype)


def _changed(bench: RankBench, case: Case, name: str, got: Any, right: Array) -> None:
    if got is not None and _same(got, _later(right), exact=True):
        text = (
            f"The model went on training after the snapshot, and the snapshot's {name} changed with it. state_dict() "
            "returns the model's own tensors. Clone each of them."
        )
        raise bench.lost(
            case, "wrong_result", text, 0, "the values at the call of snapshot()", "the model's values now"
        )
    had = f"shape {tuple(right.shape)} and dtype {right.dtype}"
    told = "no values" if got is None else f"shape {tuple(got.shape)} and dtype {got.dtype}"
    text = (
        f"The snapshot's {name} has other values than the model had."
        if told == had
        else f"The snapshot's {name} has {told}. In the model it has {had}."
    )
    text += " Keep the shape, the dtype and every value."
    raise bench.lost(case, "wrong_result", text, 0, f"shape {right.shape}, {right.dtype}", told)
