"""Nodes in a box: loads the learner's classes, and does with them what the grading process asks, request by request.

A request is {"over": [world, ...], "asked": [...]}: worlds of which no node lives any more, and what is asked of nodes
(see `actors.Asked`), of one world or of many. All that is asked is answered at once. The first request, which says what
to load, is `start`. It decides nothing.
"""

from __future__ import annotations

import mmap
import struct
import sys
from typing import Any

from grader.nodes.actors import Diverged, Pasts
from grader.nodes.life import Birth, Life, Step
from grader.nodes.space import Space, problem
from grader.sandbox import frames, program
from grader.sandbox.first import NOTE


def serve(start: dict[str, Any], channel: frames.Channel) -> int:
    """Answer requests until there is none any more. Returns an exit status."""
    running = mmap.mmap(NOTE, 8)
    stage = "compile"
    try:
        space = Space(start["source"], start["file"])
        stage = "load"
        module = space.load()
    except BaseException as error:
        channel.post(program.raised(error, start["file"], stage))
        channel.next()
        return 0
    problems = {name: why for name in start["classes"] if (why := problem(module, name))}
    channel.post({"event": "loaded", "problems": problems})
    worlds = _Worlds(space, tuple(start["watched"]))
    count = 0  # of all that was asked: a request may come while the one before is answered
    while (message := channel.next()) is not None:
        asked = message.header
        for world in asked["over"]:
            worlds.forget(world)
        answers = []
        for one in asked["asked"]:
            struct.pack_into("<q", running, 0, count)
            count += 1
            answers.append(worlds.turn(*one[1:]) if one[0] == "turn" else worlds.branch(*one[1:]))
        channel.post({"event": "answers", "answers": answers})
        sys.stdout.flush()
    return 0


class _Worlds:
    """The nodes of several worlds, which know nothing of each other."""

    def __init__(self, space: Space, watched: tuple[str, ...]) -> None:
        self._space, self._watched = space, watched
        self._lives: dict[str, dict[str, Life]] = {}
        self._pasts: dict[str, Pasts] = {}

    def _born(self, birth: Birth) -> Life:
        return Life(self._space.node_class(birth.kind, birth.name), birth, self._space.file, self._watched)

    def forget(self, world: str) -> None:
        self._lives.pop(world, None)
        self._pasts.pop(world, None)

    def turn(self, world: str, node: str, what: list[Any], now: float, birth: list[Any] | None) -> Any:
        lives = self._lives.setdefault(world, {})
        if birth is not None:
            lives[node] = self._born(Birth.from_json(birth))
        return _told(lives[node].step(what, now))

    def branch(self, world: str, birth: list[Any], past: int, what: list[Any], now: float) -> Any:
        pasts = self._pasts.get(world)
        if pasts is None:
            pasts = self._pasts[world] = Pasts(self._born)
        try:
            found = pasts.branch(Birth.from_json(birth), past, what, now)
        except Diverged as other:
            return {"diverged": {"node": other.name, "what": other.what, "first": other.first, "again": other.again}}
        return {"step": _told(found.step), "past": found.past, "state": found.state}


def _told(step: Step) -> list[Any]:
    return [step.effects, step.raised, step.state]
