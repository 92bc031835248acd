"""Run a Node class as a process that speaks Maelstrom's protocol on stdin and stdout:

    python -m grader.nodes.speak FILE.py:CLASS [--disk FOLDER] [--seed TEXT]

The disk is a file in FOLDER, or in $NODE_DISK, which `rankup nodes run` gives each node; without either it is a folder
that goes with the process. What the class prints goes to stderr. An exception in a handler ends it, as a crash.
"""

from __future__ import annotations

import argparse
import heapq
import importlib.util
import itertools
import json
import os
import random
import select
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

from grader.nodes.disk import Disk
from grader.nodes.node import Body, Node, attach
from grader.nodes.protocol import Malformed, Message, parse

CHUNK = 2**16
BAD_REQUEST, CRASHED = 2, 1


class World:
    """What a node acts through (see `node.World`), here over two descriptors."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self._in, self._out = stdin, stdout
        self.name = ""
        self._partial = b""
        self._timers: list[tuple[float, int, str]] = []
        self._set: dict[str, int] = {}  # by name: which entry of the heap counts
        self._order = itertools.count()

    def send(self, dst: str, text: str) -> None:
        """Send a body, as JSON, to another node or a client."""
        line = f'{{"src": {json.dumps(self.name)}, "dest": {json.dumps(dst)}, "body": {text}}}\n'.encode()
        while line:
            line = line[os.write(self._out, line) :]

    def set_timer(self, name: str, after: float) -> None:
        """Call `on_timer(name)` in `after` seconds; a timer of that name is moved."""
        self._set[name] = order = next(self._order)
        heapq.heappush(self._timers, (time.monotonic() + after, order, name))

    def cancel_timer(self, name: str) -> None:
        self._set.pop(name, None)

    def now(self) -> float:
        return time.monotonic()

    def wrote(self, key: str, text: str | None) -> None:
        """Nothing: the disk is a file (see `disk`), which is written before an assignment returns."""

    def due(self) -> str | None:
        """The name of the next timer that is due, which is then no longer set."""
        while self._timers and (self._set.get(self._timers[0][2]) != self._timers[0][1] or self._wait() == 0):
            _, order, name = heapq.heappop(self._timers)
            if self._set.get(name) == order:
                del self._set[name]
                return name
        return None

    def read(self) -> list[bytes] | None:
        """Lines that have come, none if a timer is due before; None at the end of the input."""
        if not select.select([self._in], [], [], self._wait())[0]:
            return []
        data = os.read(self._in, CHUNK)
        *lines, self._partial = (self._partial + data).split(b"\n")
        return lines if data else None

    def _wait(self) -> float | None:
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None


class Speaker:
    """Starts the node when init comes, hands it messages and timers."""

    def __init__(self, make: Callable[[], Any], world: World, disk: Path, seed: str | None) -> None:
        self.make, self.world, self.folder, self.seed = make, world, disk, seed
        self.node: Any = None

    def live(self) -> None:
        """Until the input ends."""
        while True:
            while self.node is not None and (name := self.world.due()) is not None:
                self.node.on_timer(name)
            lines = self.world.read()
            if lines is None:
                return
            for line in filter(bytes.strip, lines):
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            message = parse(line)
        except Malformed as error:
            print(f"a line on stdin is not a message: its sender {error}", file=sys.stderr)
            return
        if self.node is None:
            self._init(message)
        elif message.type != "init":
            self.node.on_message(message.src, Body(message.src, message.body))

    def _init(self, message: Message) -> None:
        body = message.body
        if message.type != "init":
            print(f"the first message must be init, not {message.type!r}", file=sys.stderr)
            return
        me = body["node_id"]
        node = self.make()
        peers = tuple(each for each in body["node_ids"] if each != me)
        draw = random.Random(self.seed) if self.seed is not None else random.Random()
        self.world.name = me
        attach(node, self.world, me, peers, {}, "")
        node.disk, node.random = Disk(self.folder / f"{me}.jsonl"), draw
        self.node = node
        self.world.send(message.src, json.dumps({"type": "init_ok", "in_reply_to": body.get("msg_id")}))
        node.on_start()


def load(what: str) -> type[Any]:
    """The class that "FILE.py:CLASS" names. Exits with one sentence where there is none."""
    name, _, wanted = what.rpartition(":")
    path = Path(name)
    if not name or not wanted:
        _refuse(f"{what}: name a file and a class in it, as FILE.py:CLASS")
    if not path.is_file():
        _refuse(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location("node_program", path)
    if spec is None or spec.loader is None:
        _refuse(f"{path}: is not a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception:
        traceback.print_exc()
        _refuse(f"{path} cannot be imported: see the error above")
    found = getattr(module, wanted, None)
    if not isinstance(found, type) or not issubclass(found, Node):
        _refuse(f"{path}: {wanted} is not a Node class; write `class {wanted}(Node)`")
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m grader.nodes.speak", description=(__doc__ or "").split(":")[0])
    parser.add_argument("what", metavar="FILE.py:CLASS", help="a class that inherits from grader.nodes.Node")
    parser.add_argument("--disk", metavar="FOLDER", type=Path, help="where disk is kept; $NODE_DISK if left out")
    parser.add_argument("--seed", metavar="TEXT", help="seeds node.random; $NODE_SEED if left out")
    asked = parser.parse_args(arguments)
    out = os.dup(1)
    os.dup2(2, 1)  # stdout is for messages only
    sys.stdout = sys.stderr
    made = load(asked.what)
    folder = asked.disk or os.environ.get("NODE_DISK")
    seed = asked.seed or os.environ.get("NODE_SEED")
    with nullcontext(folder) if folder else tempfile.TemporaryDirectory(prefix="rankup-disk-") as kept:
        try:
            Speaker(made, World(0, out), Path(kept), seed).live()
        except (KeyboardInterrupt, BrokenPipeError):
            return 0
        except Exception:
            traceback.print_exc()
            return CRASHED
    return 0


def _refuse(words: str) -> NoReturn:
    print(f"speak: {words}", file=sys.stderr)
    sys.exit(BAD_REQUEST)


if __name__ == "__main__":
    sys.exit(main())
