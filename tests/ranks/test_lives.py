"""Lives: a learner's program in processes that are watched at every file operation, and killed there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from grader.ranks import WORKER
from grader.ranks.engines import Engines
from grader.ranks.program import Call, Function, Limits, Program, Run, Strided
from grader.sandbox import landlock, modes
from grader.sandbox.warm import Warm

SOURCE = """\
import os
import signal
import threading
import torch
import torch.distributed as dist

def save(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
        file.flush()
        if "synced" in text:
            os.fsync(file.fileno())
    os.rename(path + ".new", path)

def later(path, text):
    thread = threading.Thread(target=save, args=(path, text))
    thread.start()
    return thread

def endless(*_):
    while True:
        pass

def stands(*_):
    threading.Event().wait()

def leaves(*_):
    os._exit(3)

def add(x):
    dist.all_reduce(x)
    return x

def through(path, text):
    # write with O_DSYNC to the files that the text names, and to others without it
    flags = os.O_WRONLY | os.O_CREAT
    for name in ("one", "other"):
        file = os.open(path + name, flags | os.O_DSYNC * (name in text.split()))
        os.write(file, b"written")
        os.close(file)

def adds(path, text):
    # write with O_DSYNC and without it to one file, in the order that the text tells
    for word in text.split():
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_DSYNC * (word == "through"))
        os.write(file, b"x")
        os.close(file)

def moves_in(path, text):
    new = os.path.join(os.environ["TMPDIR"], "new")
    with open(new, "w") as file:
        file.write(text)
        file.flush()
        if "synced" in text:
            os.fsync(file.fileno())
    os.rename(new, path)

def leaves_notes(folder):
    # write wherever that can be; what was taken
    taken = []
    places = [folder, os.environ["TMPDIR"], os.path.dirname(folder), os.path.dirname(os.environ["TMPDIR"]), "/dev/shm"]
    for number, place in enumerate(places):
        try:
            with open(os.path.join(place, "note"), "w") as file:
                file.write("x")
            taken.append(number)
        except OSError:
            pass
        try:
            os.setxattr(place, "user.note", b"x")
            taken.append(f"attribute of {number}")
        except OSError:
            pass
    return taken

def looks_round(folder, shape):
    # what can be read beside the folder, and whether a tensor of this shape is in memory
    import gc
    try:
        seen = os.listdir(os.path.dirname(folder))
    except OSError:
        seen = []
    return [seen, any(isinstance(each, torch.Tensor) and list(each.shape) == shape for each in gc.get_objects())]

def finds_notes(folder):
    places = [folder, os.environ["TMPDIR"], os.path.dirname(folder), os.path.dirname(os.environ["TMPDIR"]), "/dev/shm"]
    return [number for number, place in enumerate(places) if os.path.exists(os.path.join(place, "note"))]

def leaves_a_stray():
    # start a process in a session of its own, which nobody knows but the one who wrote it
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.setsid()
        stray = os.fork()
        if stray == 0:
            while True:
                signal.pause()
        os.write(theirs, str(stray).encode())
        os._exit(0)
    os.wait()
    return int(os.read(ours, 100))
"""
HARNESS = """\
import os, tempfile, torch
from pathlib import Path
from grader.ranks.lives import disk

def told(life):
    return [[step.call, step.name, "main" if step.main else "other"] for step in life.steps]

def call(f, name, *arguments):
    return f[name](*arguments)

def saved(lives, text, name="save"):
    folder = Path(tempfile.mkdtemp())
    life = lives.run(call, name, str(folder / "a"), text, folder=folder)
    life.values
    return {"steps": told(life), "after": {k: v.decode() for k, v in life.after_a_power_cut.items()}}

def notes(lives, watched):
    # what one life writes, and what the next finds, which is given the same room
    folder, other = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    given = {"folder": folder} if watched else {"rooms": [folder]}
    taken = lives.run(call, "leaves_notes", str(folder), **given).values[0]
    again = lives.run(call, "finds_notes", str(folder), **given).values[0]
    return [taken, again, lives.run(call, "leaves_notes", str(folder), rooms=[other]).values[0]]

def sum_and_look(f, tensor, other, shape):
    return [tensor.sum().item(), *f["looks_round"](other, shape)]

def alone(lives, tensor):
    # whether a life knows of its argument, and of one that another life had
    other = Path(tempfile.mkdtemp()) / "inside"
    other.mkdir()
    shape = list(tensor.shape)
    first = lives.run(sum_and_look, tensor, str(other), shape, rooms=[other.parent])
    folder = Path(tempfile.mkdtemp())
    return [first.values[0], lives.run(call, "looks_round", str(folder), shape, rooms=[folder]).values[0]]

def strayed(lives, watched):
    folder = Path(tempfile.mkdtemp()) if watched else None
    stray = lives.run(call, "leaves_a_stray", folder=folder).values[0]
    return Path(f"/proc/{stray}").exists()

def killed(lives, text):
    seen = []
    for number in range(10):
        folder = Path(tempfile.mkdtemp())
        disk.write(folder, {"a": b"old"})
        life = lives.run(call, "save", str(folder / "a"), text, folder=folder, kill=(0, number))
        if not life.killed:
            return seen
        seen.append({name: content.decode() for name, content in disk.read(folder).items()})

def look_and_join(f, folder, text):
    thread = f["later"](str(folder / "a"), text)
    names = os.listdir(folder)
    thread.join()
    return [*names, "then", *os.listdir(folder)]

def gated(lives, text):
    folder = Path(tempfile.mkdtemp())
    life = lives.run(look_and_join, folder, text, folder=folder, gate=True)
    return {"steps": told(life), "names": life.values[0]}

def join(f, folder, text):
    return f["later"](str(folder / "a"), text).join()

def ungated(lives, text):
    folder = Path(tempfile.mkdtemp())
    return lives.run(join, folder, text, folder=folder, gate=True).values

def ended(lives, name):
    return lives.run(call, name, folder=Path(tempfile.mkdtemp())).values

def add_and_write(f, x, folder):
    value = f["add"](torch.tensor([x + int(os.environ["RANK"])]))
    Path(folder, os.environ["RANK"]).write_text("here")
    return value

def together(lives, x):
    folder = Path(tempfile.mkdtemp())
    values = lives.run(add_and_write, x, folder, ranks=3, folder=folder).values
    folder = Path(tempfile.mkdtemp())
    lives.run(add_and_write, x, folder, ranks=3, folder=folder, kill=(1, 0))
    return [values, sorted(os.listdir(folder))]

def place(f):
    return [os.environ["RANK"], torch.distributed.is_initialized()]

def strange(lives, _):
    return [lives.run(place, ranks=2, strangers=strangers).values for strangers in (True, False)]

def save_in_children(f, folder, text):
    ended = []
    for name in "ab":
        pid = os.fork()
        if pid == 0:
            f["save"](str(folder / name), text)
            os._exit(0)
        ended.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return ended

def struck(lives, text):
    folder = Path(tempfile.mkdtemp())
    struck = lambda step: step.name == "b.new" and step.call == "write"
    ended = lives.run(save_in_children, folder, text, folder=folder, strike=struck).values[0]
    return [ended, sorted(os.listdir(folder))]

def run_as_a_script(f):
    names = {"__name__": "__main__"}
    exec(f["$code"], names)
    return names["said"]

def whole(lives, _):
    return lives.run(run_as_a_script).values[0]

def count_and_draw(f):
    f.setdefault("seen", []).append(1)
    return [len(f["seen"]), torch.rand(1).item()]

def twice(lives, _):
    return [lives.run(count_and_draw).values[0] for _ in range(2)]

def nested(lives, _):
    lives.run(lambda f: 1)
"""
NAMES = (
    *("save", "later", "endless", "stands", "leaves", "add", "through", "adds", "moves_in"),
    *("leaves_notes", "finds_notes", "looks_round", "leaves_a_stray"),
)
PROGRAM = Program(SOURCE, "a.py", tuple(Function(name) for name in NAMES), harness=HARNESS, apart=True)
LIMITS = Limits(cpu_seconds=10, idle_seconds=20, silent_seconds=60, wall_seconds=60)


@pytest.fixture(scope="module", params=modes.MODES)
def boxes(request: pytest.FixtureRequest) -> Iterator[Engines]:
    """An engine for each mode that this machine has."""
    if why := modes.why_not(request.param):
        pytest.skip(f"no {request.param} isolation on this machine: {why}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKUP_SANDBOX", request.param)
        engine = Engines(Warm(WORKER))
    yield engine
    engine.close()


def made(engines: Engines, by: str, *arguments: Any, source: str = SOURCE) -> Run:
    program = Program(source, "a.py", PROGRAM.functions, harness=HARNESS, apart=True)
    return engines.run("gloo", program, 1, [Call((arguments,), "save", by)], 1, LIMITS)


def made_in(boxes: Engines, by: str, *arguments: Any) -> Run:
    return boxes.run("gloo", PROGRAM, 1, [Call((arguments,), "save", by)], 1, LIMITS)


def returned(run: Run) -> Any:
    assert run.finished, run.diagnoses
    return run.calls[0].returned[0]


def test_every_file_operation_is_seen_in_order(engines: Engines) -> None:
    found = returned(made(engines, "saved", "synced"))
    calls = [(call.removesuffix("at2").removesuffix("at"), name) for call, name, _ in found["steps"]]
    assert calls == [("open", "a.new"), ("write", "a.new"), ("fsync", "a.new"), ("rename", "a")]
    assert {who for _, _, who in found["steps"]} == {"main"}


def test_what_was_not_synced_is_lost_with_the_power(engines: Engines) -> None:
    assert returned(made(engines, "saved", "synced"))["after"] == {"a": "synced"}
    assert returned(made(engines, "saved", "other"))["after"] == {"a": ""}


@pytest.mark.parametrize(
    ("name", "text", "after"),
    [
        ("through", "one", {"aone": "written", "aother": ""}),
        ("through", "one other", {"aone": "written", "aother": "written"}),
        ("through", "", {"aone": "", "aother": ""}),
        ("adds", "through through", {"a": "xx"}),
        ("adds", "through plain", {"a": "x"}),
        ("adds", "plain through", {"a": ""}),
        ("moves_in", "synced", {"a": "synced"}),
        ("moves_in", "other", {"a": ""}),
    ],
)
def test_each_file_is_on_the_disk_as_far_as_it_was_synced(
    engines: Engines, name: str, text: str, after: dict[str, str]
) -> None:
    assert returned(made(engines, "saved", text, name))["after"] == after


@pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")
@pytest.mark.parametrize("watched", [True, False])
def test_a_life_writes_in_its_rooms_alone_and_leaves_nothing_elsewhere(boxes: Engines, watched: bool) -> None:
    own_memory = [4] * (boxes.warm.mode == "full")
    taken, found, other = returned(made_in(boxes, "notes", watched))
    assert taken == [0, 1, *own_memory]
    assert found == [0]
    assert other == [1, *own_memory]


@pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")
def test_a_life_knows_nothing_that_it_is_not_told(boxes: Engines) -> None:
    told, other = returned(made_in(boxes, "alone", Strided.of(np.ones((3, 5, 7), np.float32))))
    assert told == [105, ["inside"], True]
    assert other == [[], False]


@pytest.mark.parametrize("watched", [True, False])
def test_what_a_life_has_started_ends_with_it(boxes: Engines, watched: bool) -> None:
    assert returned(made_in(boxes, "strayed", watched)) is False


def test_a_life_is_killed_before_each_operation_in_turn(engines: Engines) -> None:
    assert returned(made(engines, "killed", "new")) == [
        {"a": "old"},  # before the open
        {"a": "old", "a.new": ""},
        {"a": "old", "a.new": "new"},  # before the rename
    ]


def test_threads_wait_at_the_gate(engines: Engines) -> None:
    found = returned(made(engines, "gated", "x"))
    assert found["names"] == ["then", "a"]
    assert {who for _, _, who in found["steps"]} == {"other"}


def test_a_gate_opens_where_all_would_wait_for_ever(engines: Engines) -> None:
    assert returned(made(engines, "ungated", "x")) == [None]


def test_ranks_of_a_life_communicate_and_die_together(engines: Engines) -> None:
    values, left = returned(made(engines, "together", 1))
    assert [value.view().tolist() for value in values] == [[6], [6], [6]]
    assert left == ["0", "2"]


def test_strangers_are_no_group(engines: Engines) -> None:
    strangers, group = returned(made(engines, "strange", 1))
    assert strangers == [["0", False], ["1", False]]
    assert group == [["0", True], ["1", True]]


def test_every_life_is_a_new_process_with_seeds_of_its_own(engines: Engines) -> None:
    (first, one), (second, two) = returned(made(engines, "twice", 0))
    assert (first, second) == (1, 1)
    assert one != two


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        pytest.param("stands", "timeout", "stands still and did nothing new", marks=pytest.mark.heavy),
        pytest.param("endless", "timeout", "4 s of CPU time, all that is allowed (line", marks=pytest.mark.heavy),
        ("leaves", "crash", "exit status 3"),
        ("save", "crash", "TypeError"),
    ],
)
def test_a_life_that_does_not_return_is_named(engines: Engines, name: str, kind: str, words: str) -> None:
    found = made(engines, "ended", name).diagnoses[0]
    assert found.kind == kind
    assert words in found.message


@pytest.mark.parametrize(
    ("source", "kind"),
    [("def save(:\n", "syntax_error"), ("x = 1\n", "missing_function"), ("import nothing_of_that_name\n", "crash")],
)
def test_a_program_that_cannot_be_loaded_is_named(engines: Engines, source: str, kind: str) -> None:
    run = made(engines, "saved", "x", source=source)
    assert not run.loaded
    assert run.diagnoses[0].kind == kind


def test_what_a_life_does_is_named_and_never_carried_along(engines: Engines) -> None:
    found = made(engines, "nested", 1).diagnoses[0]
    assert (found.kind, "top-level function of the harness" in found.message) == ("crash", True), found


def test_a_single_process_is_killed_and_the_others_go_on(engines: Engines) -> None:
    assert returned(made(engines, "struck", "x")) == [[0, -9], ["a", "b.new"]]


def test_a_program_without_functions_is_run_as_a_whole(engines: Engines) -> None:
    program = Program("said = f'I am {__name__}'\n", "a.py", (), harness=HARNESS, apart=True)
    run = engines.run("gloo", program, 1, [Call(((0,),), by="whole")], 1, LIMITS)
    assert returned(run) == "I am __main__"
