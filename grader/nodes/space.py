"""The learner's module, as often as nodes need one: what a module or class holds must not be shared among them.

A module whose top level holds nothing that could change is loaded once for all lives of a node. Any other is loaded
anew for each life, as a new process would.
"""

from __future__ import annotations

import dis
import enum
import inspect
import sys
import types
import typing
from collections.abc import Iterable
from typing import Any

from grader.nodes.node import Node
from grader.sandbox import program

_CONSTANT = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range)


class Space:
    """A learner's program, compiled. Raises what its compilation raises."""

    def __init__(self, source: str, file: str) -> None:
        self.file = file
        self._source, self._code = source, compile(source, file, "exec", dont_inherit=True)
        self._by_node: dict[str, tuple[types.ModuleType, tuple[int, ...]]] = {}
        self._writes_globals = any(
            instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for instruction in _instructions(self._code)
        )

    def load(self) -> types.ModuleType:
        """A module of its own. Raises what the learner's top level raises."""
        return program.load(self._code, self._source, self.file)

    def node_class(self, name: str, node: str) -> type[Node]:
        """The class called `name`, for one life of `node`."""
        known = self._by_node.get(node)
        if known is None or _snapshot(known[0]) != known[1]:
            module = self.load()
            if self._writes_globals or not _constant(module):
                return getattr(module, name)  # type: ignore[no-any-return]
            known = self._by_node[node] = module, _snapshot(module)
        sys.modules[program.MODULE] = known[0]
        return getattr(known[0], name)  # type: ignore[no-any-return]


def problem(module: types.ModuleType, name: str) -> str:
    """Why the class called `name` cannot be a node; "" if it can."""
    found = getattr(module, name, None)
    if found is None:
        return f"it defines no class {name}"
    if not isinstance(found, type) or not issubclass(found, Node):
        return f"{name} is not a subclass of Node: write `class {name}(Node)`"
    if found.__init__ is not Node.__init__:
        return f"{name} defines __init__: set up a node's state in on_start, which is also called after a crash"
    return ""


def _instructions(code: types.CodeType) -> Iterable[dis.Instruction]:
    yield from dis.get_instructions(code)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _instructions(const)


def _own(module: types.ModuleType) -> Iterable[Any]:
    """What the module's top level holds, and its own classes, the names of Python itself left out."""
    for name, value in vars(module).items():
        if name in ("__builtins__", "__annotations__", "__conditional_annotations__"):
            continue
        yield value
        if _is_own_class(value):
            for inner, part in vars(value).items():
                if inner not in ("__dict__", "__weakref__", "__annotations__", "__dataclass_fields__"):
                    yield part


def _is_own_class(value: Any) -> bool:
    return isinstance(value, type) and value.__module__ == program.MODULE


def _snapshot(module: types.ModuleType) -> tuple[int, ...]:
    """Which objects the module holds: another one says that something was rebound."""
    return tuple(map(id, _own(module)))


def _constant(module: types.ModuleType) -> bool:
    return all(_is_constant(value) for value in _own(module))


def _is_constant(value: Any) -> bool:
    """Whether this can never change, so that nodes may share it."""
    if isinstance(value, (*_CONSTANT, types.ModuleType, types.BuiltinFunctionType, type, enum.Enum)):
        return True
    if isinstance(value, (tuple, frozenset)):
        return all(_is_constant(part) for part in value)
    if isinstance(value, types.FunctionType):
        if value.__module__ != program.MODULE:
            return True  # of a library
        held = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        held += [cell.cell_contents for cell in value.__closure__ or () if not _empty(cell)]
        return not vars(value).keys() - {"__wrapped__"} and all(_is_constant(part) for part in held)
    if isinstance(value, (staticmethod, classmethod)):
        return _is_constant(value.__func__)
    if isinstance(value, property):
        return all(_is_constant(part) for part in (value.fget, value.fset, value.fdel))
    if isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)):
        return True
    if type(value).__module__ in ("typing", "types", "__future__", "dataclasses", "functools"):
        return not inspect.isclass(value) and not hasattr(value, "cache_clear")
    return isinstance(value, (typing.TypeVar,))


def _empty(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False
