"""Node: what a learner's class is made of, and its disk. Imports nothing of the package: it is loaded in every box.

What a node does goes to its `World`: in virtual time (see `life`), or a real process that speaks Maelstrom's protocol.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, MutableMapping
from typing import Any, Protocol


class World(Protocol):
    """Where a node lives. Bodies come as JSON text, so that nothing is shared with whom they are sent to."""

    def send(self, dst: str, text: str) -> None: ...

    def set_timer(self, name: str, after: float) -> None: ...

    def cancel_timer(self, name: str) -> None: ...

    def now(self) -> float: ...

    def wrote(self, key: str, text: str | None) -> None:
        """The disk holds `text` under `key` now, or nothing any more."""


class Body(dict[str, Any]):
    """A message's body as it is given to on_message: a dict that knows who sent it."""

    __slots__ = ("src",)

    def __init__(self, src: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.src = src


class Disk(MutableMapping[str, Any]):
    """What survives a crash: string keys, JSON values. Every assignment is a copy, and durable when it returns."""

    def __init__(self, world: World, texts: dict[str, str]) -> None:
        self._world, self._texts = world, texts

    def __getitem__(self, key: str) -> Any:
        return json.loads(self._texts[key])

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"a key of disk must be a string, not {key!r}")
        self._texts[key] = text = encode(value, "a value on disk")
        self._world.wrote(key, text)

    def __delitem__(self, key: str) -> None:
        del self._texts[key]
        self._world.wrote(key, None)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._texts))

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"Disk({dict(self)!r})"


_STRICT = json.JSONEncoder(allow_nan=False)


def encode(value: Any, what: str) -> str:
    """A value as JSON text. Raises TypeError where it has none."""
    try:
        return _STRICT.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{what} must be JSON (dict, list, str, int, float, bool, None): {error}") from None


class Node:
    """One node of a cluster. Subclass it, and say in handlers what it does.

    `id` is its name, `peers` are the names of the others, `disk` survives a crash, `random` is seeded by who runs it.
    Handlers run one at a time, each to its end; in one of them no time passes. State is set up in `on_start`, which is
    called first, and again after a crash, on a new object of which only `disk` is left.
    """

    id: str
    peers: tuple[str, ...]
    disk: MutableMapping[str, Any]
    random: random.Random
    _world: World

    def on_start(self) -> None:
        """The node starts, for the first time or after a crash."""

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        """A message arrived; `body` is a dict with at least "type"."""

    def on_timer(self, name: str) -> None:
        """The timer called `name` went off."""

    def send(self, dst: str, body: dict[str, Any]) -> None:
        """Send `body` to a node or a client, as it is now. It may arrive late or never."""
        if not isinstance(dst, str):
            raise TypeError(f"send(dst, body): dst must be the name of a node or a client, not {dst!r}")
        if not isinstance(body, dict):
            raise TypeError(f"send(dst, body): body must be a dict, not {body!r}")
        self._world.send(dst, encode(body, "a message's body"))

    def reply(self, request: dict[str, Any], body: dict[str, Any]) -> None:
        """Send `body` to whom `request` came from, with in_reply_to. `request` is the very body given to on_message."""
        if not isinstance(request, Body):
            raise TypeError(
                "reply(request, body): request must be the very body that on_message was given, not a copy of it"
            )
        if not isinstance(body, dict):
            raise TypeError(f"reply(request, body): body must be a dict, not {body!r}")
        answer = dict(body)
        if "msg_id" in request:
            answer["in_reply_to"] = request["msg_id"]
        self.send(request.src, answer)

    def set_timer(self, name: str, after: float) -> None:
        """Have on_timer(name) called in `after` seconds of this node's clock; a timer of that name is moved."""
        if not isinstance(name, str):
            raise TypeError(f"set_timer(name, after): name must be a string, not {name!r}")
        if isinstance(after, bool) or not isinstance(after, (int, float)) or not 0 <= after < 1e9:
            raise ValueError(f"set_timer(name, after): after must be a number of seconds from 0 on, not {after!r}")
        self._world.set_timer(name, float(after))

    def cancel_timer(self, name: str) -> None:
        """Forget the timer called `name`, if there is one."""
        self._world.cancel_timer(name)

    def now(self) -> float:
        """Seconds by this node's own clock, which may be offset and a little fast or slow, and never jumps."""
        return self._world.now()


def attach(node: Node, world: World, name: str, peers: tuple[str, ...], texts: dict[str, str], seed: str) -> None:
    """Make `node` live in `world`: `texts` is what its disk holds, by key, as JSON."""
    node._world = world
    node.id, node.peers = name, peers
    node.disk = Disk(world, texts)
    node.random = random.Random(seed)


PROVIDED = frozenset({"id", "peers", "disk", "random", "_world"})
