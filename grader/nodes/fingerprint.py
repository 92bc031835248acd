"""A node's state as a short text: two lives with the same text will do the same from here on.

Sound, not complete: what cannot be looked into (an object of C code, say) gets a text of its own each time, so that
states are taken for different that may be the same, never the other way round.
"""

from __future__ import annotations

import hashlib
import itertools
import types
from collections import Counter, OrderedDict, defaultdict, deque
from enum import Enum
from typing import TYPE_CHECKING, Any

from grader.nodes.node import PROVIDED, Body, Disk

if TYPE_CHECKING:
    from grader.nodes.life import Life

_unique = itertools.count()
_ATOMS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range)
_FRESH = "fresh"


def fingerprint(life: Life) -> str:
    """Sixteen bytes in hexadecimal of all that a node's future depends on, but for its timers: its world keeps them."""
    walk = _Walk()
    node = life.node
    own = {name: value for name, value in vars(node).items() if name not in PROVIDED}
    walk.into(own)
    if life.asked_the_time:
        walk.out.append(f"@{life.now()}")
    walk.out.append(f"|{type(node).__qualname__}|{sorted(life.disk.items())}|{_random(life)}")
    return hashlib.blake2b("".join(walk.out).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _random(life: Life) -> str:
    generator = life.node.random
    state = generator.getstate() if hasattr(generator, "getstate") else next(_unique)
    return f"{life.seed} {_FRESH if state == life.first_random else hash(state)}"


class _Walk:
    """Goes through an object. A thing that was met before is told by its number, so that shared things and circles are
    told apart from equal copies."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self._met: dict[int, int] = {}
        self._kept: list[Any] = []  # what has a number stays alive while numbers count

    def into(self, value: Any) -> None:
        kind = type(value)
        if kind in _ATOMS:
            self.out.append(f"{kind.__name__}{value!r};")
            return
        if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
            self.out.append(f"<{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}>")
            return
        if id(value) in self._met:
            self.out.append(f"#{self._met[id(value)]};")
            return
        if kind is not tuple and kind is not frozenset:
            self._met[id(value)] = len(self._met)
            self._kept.append(value)
        self.out.append(f"{kind.__name__}(")
        self._parts(value, kind)
        self.out.append(")")

    def _parts(self, value: Any, kind: type) -> None:
        if kind in (set, frozenset):
            self._all(sorted(value, key=_order))
        elif kind in (list, tuple, deque):
            self._all(value)
            self.out.append(str(getattr(value, "maxlen", "")))
        elif kind in (dict, OrderedDict, Counter, defaultdict, Body):
            for key, part in value.items():
                self.into(key)
                self.into(part)
            self.into(getattr(value, "default_factory", None))
            self.out.append(getattr(value, "src", ""))
        elif isinstance(value, Enum):
            self.out.append(value.name)
        elif isinstance(value, (itertools.count, bytearray)):
            self.out.append(repr(value))
        elif isinstance(value, types.FunctionType):
            self.out.append(f"{value.__qualname__}@{value.__code__.co_firstlineno}")
            self._all([*(value.__defaults__ or ()), *(_cell(cell) for cell in value.__closure__ or ())])
        elif isinstance(value, types.MethodType):
            self.into(value.__func__)
            self.into(value.__self__)
        elif isinstance(value, types.GeneratorType):
            self._generator(value)
        elif isinstance(value, Disk):
            self.out.append("disk")  # told apart, once
        elif hasattr(value, "__dict__") or hasattr(kind, "__slots__"):
            self._object(value, kind)
        else:
            self.out.append(f"?{next(_unique)}")

    def _generator(self, value: types.GeneratorType[Any, Any, Any]) -> None:
        frame = value.gi_frame
        self.out.append(value.__qualname__)
        if frame is not None:
            self.out.append(f"@{frame.f_lasti}")
            self.into(dict(frame.f_locals))
            self.into(value.gi_yieldfrom)

    def _object(self, value: Any, kind: type) -> None:
        if kind.__module__ != "submission" and not hasattr(value, "__dict__"):
            self.out.append(f"?{next(_unique)}")  # of some library: its slots may not be all there is
            return
        self.out.append(kind.__qualname__)
        fields = dict(getattr(value, "__dict__", {}))
        for base in kind.__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__"):
                    fields[name] = getattr(value, name, _FRESH)
        if isinstance(value, (dict, list, set, deque, tuple, str, int, float)):
            self.out.append(f"?{next(_unique)}")  # a subclass with content of its own
        if "_world" in fields:  # the node itself
            fields = {name: part for name, part in fields.items() if name not in PROVIDED}
        self.into(fields)

    def _all(self, values: Any) -> None:
        for value in values:
            self.into(value)


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _order(value: Any) -> str:
    """Where an element of a set comes; equal texts for different elements can only make states look different."""
    return f"{type(value).__name__}{value!r}"
