"""Calls the learner's generate with models that are tables and with numbers that are decided here, and writes down what
it returned, how many numbers it drew and which calls it made. It decides nothing.

The models know the whole context: a table has a row for each continuation of the prompt, a text one for each beginning
of it. Rows are float64.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

Row = Any  # float64 [vocabulary]
Next = Callable[[tuple[int, ...]], tuple[Row, Row]]  # the target's and the draft's row after a context
MOST_WAYS = 15  # powers of 2: three rounds of five numbers each
MOST_TOKENS = 1000
FINE = 2**20  # levels of numbers up to almost 1: float32 can hold them, too


class Enough(BaseException):
    """More numbers or calls than any right submission needs. No `except Exception` keeps it."""


class Numbers:
    """rng: each number is (digit + 1/2) / levels. The first digits are given; those after them are `later`'s."""

    def __init__(self, levels: int, digits: Sequence[int], most: int, later: Callable[[], int] = lambda: 0) -> None:
        self._levels, self._given, self._most, self._later = levels, digits, most, later
        self.digits: list[int] = []

    def random(self) -> float:
        """A float in [0, 1)."""
        at = len(self.digits)
        if at >= self._most:
            raise Enough("numbers")
        self.digits.append(self._given[at] if at < len(self._given) else self._later())
        return (self.digits[at] + 0.5) / self._levels


class Models:
    """target and draft as two functions, and every call of theirs in order: who, and with which tokens."""

    def __init__(self, following: Next, most: int) -> None:
        self._following, self._most = following, most
        self._known: dict[tuple[int, ...], tuple[Row, Row]] = {}  # contexts with the rows after each of their tokens
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self.numbers = Numbers(2, (), 0)  # of the run that calls
        self.drawn: list[int] = []  # how many of them before each call of target

    def target(self, tokens: Sequence[int]) -> Row:
        self.drawn.append(len(self.numbers.digits))
        return self._called("target", tokens)

    def draft(self, tokens: Sequence[int]) -> Row:
        return self._called("draft", tokens)

    def _called(self, who: str, tokens: Sequence[int]) -> Row:
        if len(self.calls) >= self._most:
            raise Enough("calls")
        try:
            context = tuple(map(int, tokens))
        except (TypeError, ValueError):
            raise TypeError(f"{who}(tokens) takes a list of ints, but got {str(tokens)[:80]}") from None
        if not context:
            raise ValueError(f"{who}(tokens) takes at least one token, but got none")
        self.calls.append((who, context))
        if context not in self._known:
            pairs = [self._following(context[: end + 1]) for end in range(len(context))]
            self._known[context] = np.array([p for p, _ in pairs]), np.array([q for _, q in pairs])
        return self._known[context][who == "draft"].copy()


def outcomes(
    generate: Any, levels: int, prompt: list[int], new: int, k: int, target: Any, draft: Any, only: list[int] | None
) -> dict[str, Any]:
    """Every way that generate can go, where each number is one of (i + 1/2) / levels; or the one way with the digits
    `only`, with its calls.

    Rows of `target` and `draft` [contexts, vocabulary] are those after the prompt and each continuation: shorter ones
    first, then in the order of their tokens.
    """
    p, q = np.asarray(target), np.asarray(draft)
    models = Models(_rows(prompt, p, q), (4 + k) * (new + k) * 4)
    # More than are allowed, so that it can be seen what becomes of them.
    most = min((3 * k + 1) * new, MOST_WAYS // (levels // 2))
    runs, prefix = [], list(only or [])
    while True:
        numbers = Numbers(levels, prefix, most)
        runs.append(_run(generate, models, numbers, prompt, new, k))
        digits = list(numbers.digits)
        if only is not None or runs[-1]["over"] or len(digits) < len(prefix):
            break
        while digits and digits[-1] == levels - 1:
            digits.pop()
        if not digits:
            break
        prefix = [*digits[:-1], digits[-1] + 1]
    calls = [[who, *tokens] for who, tokens in models.calls] if only is not None else []
    again = _run(generate, models, Numbers(levels, [], most), prompt, new, k) if only is None else runs[0]
    steady = _packed(again)[:-1] == _packed(runs[0])[:-1] and len(runs[-1]["digits"]) >= len(prefix)
    return {"runs": [_packed(run) for run in runs], "steady": steady, "calls": calls, "others": _others()}


def counted(
    generate: Any, prompt: list[int], new: int, k: int, text: list[int], misses: int, vocabulary: int
) -> dict[str, Any]:
    """One run with one-hot rows: the target writes `text`, and the draft's every misses-th token is another one (0: none
    is). Its numbers are any; where no draft may be refused, some are close to 1."""
    models = Models(_text(prompt, text, misses, vocabulary), (4 + k) * (new + k) * 4)
    levels, digit = 4 if misses else FINE, random.Random(len(text) * 64 + new).choice
    later = (0, levels // 4, levels // 2, levels - 1)
    run = _run(generate, models, Numbers(levels, [], (2 * k + 3) * (new + 1), lambda: digit(later)), prompt, new, k)
    return {"run": _packed(run), "calls": [[who, *tokens] for who, tokens in models.calls]}


def _run(generate: Any, models: Models, numbers: Numbers, prompt: list[int], new: int, k: int) -> dict[str, Any]:
    """One call, and what came of it."""
    models.calls.clear()
    models.numbers, models.drawn = numbers, []
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)
    given, over, output = list(prompt), "", None
    try:
        output = generate(models.target, models.draft, given, new, k, numbers)
    except Enough as enough:
        over = str(enough)
    tokens, kind = _tokens(output)
    of = [who for who, _ in models.calls]
    return {
        "digits": list(numbers.digits), "tokens": tokens, "kind": kind, "over": over, "kept": given == prompt,
        "target": of.count("target"), "draft": of.count("draft"),
        "longest": max((len(tokens) for _, tokens in models.calls), default=0), "drawn": models.drawn,
    }  # fmt: skip


def _tokens(output: Any) -> tuple[list[int] | None, str]:
    """The tokens of a list of ints, with "". Of something like it they are told, too, with what it is instead."""
    kind = "" if type(output) is list else "None" if output is None else f"a {_name(type(output))}"
    try:
        strange = [type(token) for token in output if type(token) is not int]
        tokens = [int(token) for token in output[:MOST_TOKENS]]
    except Exception:
        return None, kind or "a list that holds something else than numbers"
    if strange and not kind:
        kind = f"a list that holds a {_name(strange[0])}"
    return [token if abs(token) < 2**31 else -1 for token in tokens], kind


def _name(of: type) -> str:
    package = of.__module__.partition(".")[0]
    return f"{package}.{of.__name__}" if package in ("numpy", "torch") else of.__name__


def _packed(run: dict[str, Any]) -> list[Any]:
    return [run[name] for name in FIELDS]


FIELDS = ("digits", "tokens", "kind", "over", "kept", "target", "draft", "longest", "drawn")


def _others() -> list[str]:
    """The sources of random numbers that the last run used, though it had seeds of ours."""
    found = []
    now = random.getstate()
    random.seed(0)
    if now != random.getstate():
        found.append("random")
    used = np.random.get_state(legacy=False)["state"]
    np.random.seed(0)
    fresh = np.random.get_state(legacy=False)["state"]
    if used["pos"] != fresh["pos"] or (used["key"] != fresh["key"]).any():
        found.append("numpy.random")
    seen = torch.default_generator.get_state()
    torch.default_generator.manual_seed(0)
    if not torch.equal(seen, torch.default_generator.get_state()):
        found.append("torch")
    return found


def _rows(prompt: list[int], p: Row, q: Row) -> Next:
    vocabulary, start = p.shape[1], tuple(prompt)
    order = {tokens: number for number, tokens in enumerate(_continuations(vocabulary, len(p)))}

    def following(context: tuple[int, ...]) -> tuple[Row, Row]:
        after = order.get(context[len(start) :]) if context[: len(start)] == start else None
        number = _any_number(context) % len(p) if after is None else after
        return p[number], q[number]

    return following


def _continuations(vocabulary: int, count: int) -> Iterator[tuple[int, ...]]:
    """The first `count` lists of tokens: shorter ones first, then in the order of their tokens."""
    level: list[tuple[int, ...]] = [()]
    while count > 0:
        yield from level[:count]
        count -= len(level)
        level = [(*tokens, token) for tokens in level for token in range(vocabulary)]


def _text(prompt: list[int], text: list[int], misses: int, vocabulary: int) -> Next:
    whole = (*prompt, *text)

    def following(context: tuple[int, ...]) -> tuple[Row, Row]:
        at = len(context) - len(prompt)
        there = whole[len(context)] if len(context) < len(whole) else 0
        if at < 0 or context != whole[: len(context)]:  # never what the text has there
            token = (there + 1 + _any_number(context) % (vocabulary - 2)) % vocabulary
            other = (there + 1 + (token - there) % (vocabulary - 1)) % vocabulary
            return _one_hot(token, vocabulary), _one_hot(other, vocabulary)
        missed = misses > 0 and (at + 1) % misses == 0
        return _one_hot(there, vocabulary), _one_hot((there + missed) % vocabulary, vocabulary)

    return following


def _one_hot(token: int, vocabulary: int) -> Row:
    row = np.zeros(vocabulary)
    row[token] = 1.0
    return row


def _any_number(context: Sequence[int]) -> int:
    return zlib.crc32(",".join(map(str, context)).encode())
