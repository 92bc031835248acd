"""What a store is that serves one client at a time: register, cas-register and kv, each as a pure step function.

Keys are independent, so a model tells of the value of one key; that is what lets a checker take the keys one by one
(locality: Herlihy and Wing 1990, section 3.2). Values are compared as JSON, `freeze` makes them hashable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from grader.nodes.histories.history import Key, Operation, called
from grader.submission import BadRequest


@dataclass(frozen=True)
class Model:
    """One key's value: the functions it has, and what it is before anything happened.

    `canon` makes equal what the model does not tell apart.
    """

    name: str
    functions: tuple[str, ...]
    canon: Callable[[Hashable], Hashable]

    @property
    def initial(self) -> Hashable:
        return self.canon(None)

    def value(self, value: Any) -> Hashable:
        """A JSON value as this model compares it."""
        return self.canon(freeze(value))

    def step(self, state: Hashable, operation: Operation) -> tuple[bool, Hashable]:
        """Whether `operation` can take effect at `state` with the outcome that it had, and the state after it.

        An "info" operation takes effect whatever it may have returned; "fail" never does, so it must not be asked for.
        """
        f, status = operation.f, operation.status
        if f == "read":
            return status == "info" or state == self.value(operation.result), state
        if f == "write":
            return True, self.value(operation.value)
        if f == "append":
            return isinstance(state, str), f"{state}{operation.value}"
        old, new = (self.value(value) for value in operation.value)
        if status == "unseen":
            return state != old, state
        return state == old, new


def _as_it_is(value: Hashable) -> Hashable:
    return value


def _null_is_empty(value: Hashable) -> Hashable:
    return "" if value is None else value


MODELS = {
    model.name: model
    for model in (
        Model("register", ("read", "write"), _as_it_is),
        Model("cas-register", ("read", "write", "cas"), _as_it_is),
        Model("kv", ("read", "write", "cas", "append"), _null_is_empty),
    )
}


def find(name: str) -> Model:
    """The model of that name. Raises BadRequest."""
    if name not in MODELS:
        raise BadRequest(f"no model is called {name!r}; there are {', '.join(MODELS)}")
    return MODELS[name]


def freeze(value: Any) -> Hashable:
    """A JSON value as a hashable one: equal exactly where the JSON is (1 is 1.0, and is not true)."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int | float):
        return value
    if isinstance(value, list | tuple):
        return ("list", *map(freeze, value))
    if isinstance(value, dict):
        return ("object", frozenset((name, freeze(part)) for name, part in value.items()))
    raise TypeError(f"{type(value).__name__} is no JSON value")


def by_key(operations: Sequence[Operation], model: Model) -> dict[Key, list[Operation]]:
    """The operations of each key, in the order in which the keys were first used.

    Raises BadRequest where an operation is none of this model's.
    """
    keys: dict[Key, list[Operation]] = {}
    for operation in operations:
        if operation.f not in model.functions:
            others = [other.name for other in MODELS.values() if operation.f in other.functions]
            raise BadRequest(
                f"{called(operation.process)} does a {operation.f}, which the model {model.name} does not have. "
                f"Use --model {' or '.join(others)}"
            )
        if model.name == "kv" and operation.key is None:
            what = f"a {operation.f} by {called(operation.process)}"
            raise BadRequest(f"{what} has no key. The model kv needs it, in the field key")
        keys.setdefault(operation.key, []).append(operation)
    for key, own in keys.items():
        if any(operation.f == "append" for operation in own):
            for operation in own:
                written = operation.value[1] if operation.f == "cas" else operation.value
                if operation.f != "read" and not (written is None or isinstance(written, str)):
                    raise BadRequest(
                        f"key {key!r} has appends, so it must hold text, but {called(operation.process)} sets it to "
                        f"{written!r}"
                    )
    return keys
