"""Pictures of clusters of nodes: all that happened is in them, within their frame, and only what went wrong is red."""

from __future__ import annotations

import copy
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stories import STORIES, Telling, everything
from test_diagram import SVG, titles, written

from grader.trace import dark, storyboard, style
from grader.trace.board import phrases, scale, scene
from grader.trace.story import Fault, Happened, Sent, Story

Point = tuple[float, float]
_STEP = re.compile(r"([a-zA-Z])([^a-zA-Z]*)")
_NUMBER = re.compile(r"-?\d*\.?\d+(?:e-?\d+)?")


def points(path: str) -> Iterator[Point]:
    """The points through which a path goes, in the commands that pictures use; control points count."""
    x = y = 0.0
    for command, rest in _STEP.findall(path):
        values = [float(value) for value in _NUMBER.findall(rest)]
        relative = command.islower()
        match command.lower():
            case "h":
                x = x + values[0] if relative else values[0]
            case "v":
                y = y + values[0] if relative else values[0]
            case "m" | "l" | "q" | "t":
                for at in range(0, len(values), 4 if command.lower() == "q" else 2):
                    end = values[at : at + 4][-2:] if command.lower() == "q" else values[at : at + 2]
                    x, y = (x + end[0], y + end[1]) if relative else (end[0], end[1])
                    yield x, y
        yield x, y


def shapes(root: ElementTree.Element) -> Iterator[tuple[ElementTree.Element, list[Point]]]:
    """Every shape, and points at its outer edge."""

    def walk(element: ElementTree.Element, dx: float, dy: float) -> Iterator[tuple[ElementTree.Element, list[Point]]]:
        moved = re.match(r"translate\(([-\d.]+) ([-\d.]+)\)", element.get("transform", ""))
        if moved:
            dx, dy = dx + float(moved[1]), dy + float(moved[2])
        kind = element.tag.removeprefix(SVG)
        if kind == "defs":
            return
        found: list[Point] = []
        if kind == "path":
            found = list(points(element.get("d", "")))
        elif kind == "circle":
            x, y, r = (float(element.get(name, "0")) for name in ("cx", "cy", "r"))
            found = [(x - r, y - r), (x + r, y + r)]
        elif kind == "rect" and element.get("width") != "100%":
            x, y, w, h = (float(element.get(name, "0")) for name in ("x", "y", "width", "height"))
            assert w >= 0, "a rectangle of negative width"
            assert h >= 0, "a rectangle of negative height"
            found = [(x, y), (x + w, y + h)]
        yield element, [(x + dx, y + dy) for x, y in found]
        for child in element:
            yield from walk(child, dx, dy)

    yield from walk(root, 0.0, 0.0)


def assert_in_frame(text: str) -> None:
    root = ElementTree.fromstring(text)
    wide, tall = float(root.get("width", "0")), float(root.get("height", "0"))
    assert wide <= 1200
    for element, found in shapes(root):
        for x, y in found:
            assert -1 <= x <= wide + 1, f"{ElementTree.tostring(element)!r} leaves the picture"
            assert -1 <= y <= tall + 1, f"{ElementTree.tostring(element)!r} leaves the picture"
    for words, box in written(text):
        assert box[0] >= -1, f"{words!r} leaves the picture to the left"
        assert box[2] <= wide + 1, f"{words!r} leaves the picture to the right"
        assert 0 <= box[1] < box[3] <= tall, f"{words!r} leaves the picture"


@pytest.mark.parametrize("name", STORIES)
def test_all_of_it_lies_in_the_frame(name: str) -> None:
    assert_in_frame(storyboard.svg(STORIES[name]()))


@pytest.mark.parametrize("name", STORIES)
def test_no_word_lies_on_another(name: str) -> None:
    assert_apart(storyboard.svg(STORIES[name]()))


def assert_apart(text: str) -> None:
    found = list(written(text))
    for at, (words, box) in enumerate(found):
        for other, there in found[at + 1 :]:
            apart = box[2] <= there[0] or there[2] <= box[0] or box[3] <= there[1] or there[3] <= box[1]
            assert apart, f"{words!r} and {other!r} overlap"


def expected(story: Story) -> Counter[str]:
    """What hovers over the messages and events of a story."""
    told = [phrases.of_message(sent, story.unit) for sent in story.sent]
    told += [phrases.of_event(event, story.unit) for event in story.events if event.node in story.lanes]
    return Counter(told)


@pytest.mark.parametrize("name", STORIES)
def test_every_message_and_event_is_there(name: str) -> None:
    story = STORIES[name]()
    missing = expected(story) - Counter(titles(storyboard.svg(story)))
    assert not missing


@pytest.mark.parametrize("name", STORIES)
def test_the_same_story_gives_the_same_picture_and_stays_as_it_was(name: str) -> None:
    story = STORIES[name]()
    before = copy.deepcopy(story)
    assert storyboard.svg(story) == storyboard.svg(STORIES[name]())
    storyboard.words(story)
    if name != "nasty":  # not a number is not equal to itself
        assert story == before


def test_pictures_do_not_depend_on_how_python_hashes() -> None:
    program = (
        "import zlib; from stories import STORIES; from grader.trace import storyboard as s;"
        "print([zlib.crc32((s.svg(t()) + repr(s.words(t()))).encode()) for t in STORIES.values()])"
    )
    here = Path(__file__).parent
    told = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(here), *sys.path])}
        ran = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, cwd=here
        )
        told.add(ran.stdout)
    assert len(told) == 1


@pytest.mark.parametrize("name", STORIES)
def test_red_is_what_is_marked_and_nothing_else(name: str) -> None:
    story = STORIES[name]()
    allowed = [phrases.of_message(sent, story.unit) for sent in story.sent if sent.number in story.marked]
    allowed += [phrases.of_event(story.events[at], story.unit) for at in story.blamed]
    text = storyboard.svg(story)
    if not allowed:
        assert style.BAD not in text.split("</defs>")[1]
        assert style.BAD_PALE not in text.split("</defs>")[1]
    red = set()
    for group in ElementTree.fromstring(text).iter(f"{SVG}g"):
        title = group.find(f"{SVG}title")
        if title is not None and style.BAD in ElementTree.tostring(group, encoding="unicode"):
            red.add(title.text)
    assert red == set(allowed)


# ---- what each kind of thing looks like and is called

HOVERS = {
    "a message": 'hello from alpha to beta; sent at 0.1 s by line 20; arrived at 0.15 s\n{"type": "hello", "key": "k"',
    "a duplicate": "arrived at 0.2 s; a duplicate that the network made",
    "dropped": "dropped one from beta to gamma; sent at 0.2 s by line 20; dropped by the network",
    "cut off": "cut one from beta to gamma; sent at 0.3 s by line 20; cut off: nothing passed between the two",
    "cut off on arrival": "cut off: nothing passed between the two at 0.4 s",
    "lost, of no line": "lost one from gamma to alpha; sent at 0.5 s; lost: alpha was down at 0.56 s",
    "to nobody": "lost: omega was not there",
    "under way": "late from beta to alpha; sent at 0.98 s by line 20; still under way at the end",
    "a partition": "partition: alpha beta | gamma; from 0.28 s to 0.42 s",
    "one way": "cut one way: gamma → alpha beta; from 0.5 s to 0.6 s",
    "slow links": "messages take 200 ms longer; from 0.62 s to 0.7 s",
    "loss": "messages are lost: beta; from 0.72 s to 0.8 s",
    "duplicates": "messages are duplicated; from 0.05 s to 0.2 s",
    "down": "alpha is down; from 0.53 s to 0.58 s",
    "standing still": "gamma stands still; from 0.8 s to 0.9 s",
    "a crash": "alpha crashes; at 0.53 s",
    "a restart": "alpha restarts; at 0.58 s",
    "a timer": "beta gets timer tick; at 0.2 s",
    "a timer that is set": "beta sets timer tick; at 0.05 s",
    "a write": "beta writes k = [1, 2] to disk; at 0.2 s; line 31",
    "a state": "beta is now: role = leader, current_term = 3, commit_index = 9; at 0.2 s",
    "a note": "alpha notes: all is well; at 0.4 s",
    "an answer": "alpha answers read_ok to c1; at 0.85 s",
    "an exception": "beta raises KeyError; at 0.95 s",
    "a start": "alpha starts; at 0 s",
    "an operation": "c1: write x=1; from 0.1 s to 0.15 s",
    "one that failed": "c1: cas x 1→2 failed (22); from 0.2 s to 0.3 s",
    "a read of nothing": "c1: read x → null; from 0.5 s to 0.6 s",
    "one given up": "c1: write x=4 ?; from 0.65 s given up at 0.7 s: nobody knows whether it happened",
    "one never answered": "c1.1: write x=5 ?; from 0.8 s; never answered",
}  # fmt: skip


@pytest.mark.parametrize("told", HOVERS.values(), ids=HOVERS.keys())
def test_each_kind_hovers_with_what_it_was(told: str) -> None:
    assert any(title.startswith(told) or told in title for title in titles(storyboard.svg(everything())))


WRITTEN = {
    "a message": ("quorum", "store x=2 t [2,n1]"),
    "an answer of null": ("everything", "read x → null"),
    "a failed operation": ("everything", "cas x 1→2 failed (22)"),
    "an open operation": ("quorum", "write x=2 ?"),
    "a state": ("everything", "leader, term 3, commit 9"),
    "a timer": ("everything", "tick"),
    "parts of a partition": ("gossip", "n1–n8"),
    "links cut one way": ("everything", "cut one way: gamma → alpha beta"),
    "time left out": ("election", "time left out, in seconds"),
    "heartbeats": ("election", "sent again and again"),
    "seconds": ("partition", "time, s"),
    "steps": ("quorum", "step"),
    "own words of a step": ("two phases", "The schedule's own words for step 3."),
    "a word on one step": ("quorum", "c1 asks n1: write x=2."),
}


@pytest.mark.parametrize(("name", "label"), WRITTEN.values(), ids=WRITTEN.keys())
def test_what_is_written_in_the_picture(name: str, label: str) -> None:
    assert label in [words for words, _ in written(storyboard.svg(STORIES[name]()))]


def test_a_legend_tells_only_what_occurs() -> None:
    words = [words for words, _ in written(storyboard.svg(STORIES["one event"]()))]
    assert "note" in words
    assert not {"message", "crashes", "down", "dropped", "operation of a client"} & set(words)


def test_two_pictures_on_one_page_do_not_share_names() -> None:
    names = [set(re.findall(r' id="(\w+)"', storyboard.svg(STORIES[name]()))) for name in ("quorum", "election")]
    assert names[0]
    assert not names[0] & names[1]


# ---- where things lie


def group(text: str, title: str) -> ElementTree.Element:
    """The shapes that hover with a title that begins so."""
    for found in ElementTree.fromstring(text).iter(f"{SVG}g"):
        words = found.find(f"{SVG}title")
        if words is not None and (words.text or "").startswith(title):
            return found
    raise AssertionError(f"nothing hovers with {title!r}")


def drawn(text: str, title: str) -> list[Point]:
    return list(points(next(group(text, title).iter(f"{SVG}path")).get("d", "")))


def lanes(text: str) -> dict[str, float]:
    root = ElementTree.fromstring(text)
    return {found.text or "": float(found.get("y", "0")) - 4 for found in root.iter(f"{SVG}text")}


def test_messages_end_where_their_fate_says() -> None:
    text = storyboard.svg(everything())
    y = lanes(text)
    ends = {
        "delivered": ("wrong", y["alpha"]),
        "dropped half way": ("dropped one", (y["beta"] + y["gamma"]) / 2),
        "cut off at the edge": ("cut one", (y["beta"] + y["gamma"]) / 2),
        "lost at the lane": ("lost one", y["alpha"]),
    }
    for name, (title, height) in ends.items():
        assert drawn(text, title + " from")[-1][1] == pytest.approx(height, abs=0.2), name


def test_a_bridge_is_drawn_as_the_parts_that_cannot_reach_each_other() -> None:
    story = Story(("n1", "n2", "n3"), end=1.0)
    story.faults.append(Fault("partition", 0.2, 0.8, (("n1", "n2", "n3"),), "bridge", (("n1", "n3"), ("n3", "n1"))))
    text = storyboard.svg(story)
    words = [words for words, _ in written(text)]
    assert {"bridge", "n1", "n3"} <= set(words)
    assert "nothing passes between the parts" in words


def test_arrows_of_a_schedule_do_not_lie_on_each_other() -> None:
    text = storyboard.svg(STORIES["two phases"]())
    paths = [found.get("d", "") for found in ElementTree.fromstring(text).iter(f"{SVG}path")]
    assert sum("Q" in path for path in paths) >= 2


def test_heartbeats_are_pale_but_the_first() -> None:
    found = scene.of(STORIES["election"]())
    beats = [message for message in found.messages if message.sent.body.get("entries") == []]
    assert not any(message.pale for message in beats[:4])
    assert sum(message.pale for message in beats) > len(beats) - 12
    assert not any(message.pale for message in found.messages if "vote" in message.sent.type)


def test_few_messages_are_all_drawn_in_full_and_marked_ones_always() -> None:
    few = Telling("n1", "n2")
    for at in range(10):
        few.send("n1", "n2", at, at + 0.1, "beat")
    assert not any(message.pale for message in scene.of(few.done(10)).messages)
    many = Telling("n1", "n2")
    for at in range(100):
        many.send("n1", "n2", at, at + 0.1, "beat", marked=at == 70)
    assert [message.sent.number for message in scene.of(many.done(100)).messages if not message.pale] == [0, 70]


def test_time_is_torn_only_where_nothing_happens_in_full() -> None:
    found = scene.of(STORIES["election"]())
    made = scale.of(found)
    assert made.tears
    for since, until in made.tears:
        assert not [at for at in found.moments() if since < at < until]


@pytest.mark.parametrize("name", STORIES)
def test_later_lies_to_the_right(name: str) -> None:
    found = scene.of(STORIES[name]())
    made = scale.of(found)
    places = [made.at(at) for at in found.moments()]
    assert places == sorted(places)
    assert all(0 <= place <= made.places[-1] for place in places)
    assert made.places[-1] <= scale.WIDEST + 0.1


def busy(count: int) -> Telling:
    tell, rng = Telling("n1", "n2", "n3"), random.Random(1)
    for at in range(count):
        tell.send("n1", "n2", at * 0.01, at * 0.01 + 0.02, "say", text="".join(rng.choices("abcdefgh", k=8)))
    return tell


def test_of_a_very_long_story_the_end_is_shown_unless_told_otherwise() -> None:
    story = busy(3000).done(30.0)
    text = storyboard.svg(story)
    assert_in_frame(text)
    shown = sum(title.startswith("say from") for title in titles(text))
    assert 1000 <= shown <= 1003, "those that arrive in the stretch are in it"
    assert f"{3000 - shown:,} messages before and after are left out." in text
    part = storyboard.svg(story, since=1.0, until=2.0)
    assert_in_frame(part)
    assert sum(title.startswith("say from") for title in titles(part)) == 103


def test_of_a_very_long_story_what_is_marked_is_shown() -> None:
    story = busy(3000).done(30.0)
    story.marked.add(700)
    shown = [title for title in titles(storyboard.svg(story)) if title.startswith("say from")]
    assert phrases.of_message(story.sent[700], "s") in shown


def test_very_many_messages_at_once_are_one_shape() -> None:
    tell = Telling(*(f"n{number}" for number in range(64)))
    for src in range(64):
        for dst in range(64):
            if src != dst:
                tell.send(f"n{src}", f"n{dst}", 0.1, 0.1 + (src + dst) / 1000, f"beat{src}x{dst}")
    text = storyboard.svg(tell.done(0.3))
    assert_in_frame(text)
    assert "4,032 messages" in titles(text)
    assert len(text) < 300_000


# ---- whatever nodes say

FATES = st.sampled_from(["delivered", "dropped", "cut", "lost", "in flight"])
NODES = st.sampled_from(["a", "b", "c1", "d\x00<", "nobody"])
TIMES = st.floats(0, 10, allow_nan=False)
BODIES = st.dictionaries(
    st.text(max_size=6),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=4,
    ),
    max_size=4,
)
KINDS = st.sampled_from(["start", "restart", "crash", "pause", "resume", "timer", "set_timer", "write", "raised",
                         "state", "note", "answer"])  # fmt: skip
FAULTS = st.sampled_from(["partition", "one-way", "down", "pause", "slow", "loss", "duplicates"])


@st.composite
def any_story(draw: st.DrawFn) -> Story:
    story = Story(("a", "b", "c1", "d\x00<"), draw(st.sampled_from(["s", "step"])), end=draw(TIMES))
    for number in range(draw(st.integers(0, 12))):
        fate, sent = draw(FATES), draw(TIMES)
        arrived = (
            sent + draw(TIMES) if fate == "delivered" or (fate in ("cut", "lost") and draw(st.booleans())) else None
        )
        story.sent.append(
            Sent(number, draw(NODES), draw(NODES), draw(BODIES), sent, draw(st.none() | st.integers(1, 99)), arrived,
                 fate, draw(st.booleans()))
        )  # fmt: skip
    for _ in range(draw(st.integers(0, 8))):
        story.events.append(Happened(draw(KINDS), draw(NODES), draw(TIMES), draw(st.text(max_size=30))))
    for _ in range(draw(st.integers(0, 4))):
        since = draw(TIMES)
        groups = tuple(tuple(group) for group in draw(st.lists(st.lists(NODES, max_size=3), max_size=3)))
        pairs = tuple(draw(st.lists(st.tuples(NODES, NODES), max_size=3)))
        story.faults.append(Fault(draw(FAULTS), since, since + draw(TIMES), groups, draw(st.text(max_size=9)), pairs))
    for _ in range(draw(st.integers(0, 6))):
        story.history.append({
            "process": draw(NODES | st.integers(0, 3)), "type": draw(st.sampled_from(["invoke", "ok", "fail", "info"])),
            "f": draw(st.sampled_from(["read", "write", "cas", "txn"])), "key": draw(st.none() | st.text(max_size=9)),
            "value": draw(st.none() | st.lists(st.integers(), max_size=3)), "time": draw(TIMES),
        })  # fmt: skip
    story.marked = set(draw(st.lists(st.integers(0, 12), max_size=2)))
    story.blamed = set(draw(st.lists(st.integers(0, 8), max_size=2)))
    story.title, story.subtitle = draw(st.text(max_size=50)), draw(st.text(max_size=50))
    story.words = draw(st.lists(st.text(max_size=40), max_size=3))
    return story


@settings(max_examples=40, deadline=None)
@given(story=any_story())
def test_whatever_happens_the_picture_is_whole(story: Story) -> None:
    text = storyboard.svg(story)
    assert_in_frame(text)
    assert_apart(text)
    assert text == storyboard.svg(story)
    count = len([event for event in story.events if event.node in story.lanes])
    silent = [event for event in story.events if event.what == "state" and not event.text]
    assert len(titles(text)) >= len(story.sent) + count - len(silent)
    assert all(sentence for sentence in storyboard.words(story))


@pytest.mark.parametrize("name", sorted(STORIES))
def test_every_colour_has_one_for_dark_pages(name: str) -> None:
    assert dark.follows(storyboard.svg(STORIES[name]()))
