"""The page of a run: self-contained, escaped, and a card for everything that can be pointed at."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from runs import RUNS, ring, ring_deadlock

from grader.trace import page

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def html(name: str) -> str:
    trace, cycle, marks = RUNS[name]()
    return page.html(trace, "A title", "a subtitle", cycle, marks)


def cards(text: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="cards">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])  # type: ignore[no-any-return]


class Tags(HTMLParser):
    """Every element that a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("name", RUNS)
def test_every_part_has_its_card(name: str) -> None:
    text = html(name)
    numbers = [int(attrs["data-i"] or "") for _, attrs in Tags(text).found if "data-i" in attrs]
    assert sorted(numbers) == list(range(len(cards(text))))


@pytest.mark.parametrize("name", RUNS)
def test_a_page_loads_nothing(name: str) -> None:
    for tag, attrs in Tags(html(name)).found:
        assert tag not in ("link", "img", "iframe", "object", "image", "use")
        assert not {"src", "href", "xlink:href"} & set(attrs)
        assert not [attr for attr in attrs if attr.startswith("on")]


def test_a_learners_text_stays_text() -> None:
    trace, cycle, marks = ring_deadlock(3)
    text = page.html(trace, NASTY, NASTY, cycle, marks | {1: NASTY}, source="\n".join([NASTY] * 20))
    found = Tags(text).found
    assert [attrs.get("id") for tag, attrs in found if tag == "script"] == ["cards", None, None]
    assert not [tag for tag, _ in found if tag == "img"]
    assert cards(text), "and the cards can be read"


def test_a_card_tells_operation_ranks_bytes_lines_and_times() -> None:
    text = page.html(ring(2, 1), "t", source="\n" * 6 + "    dist.send(x, 1)  # here")
    card = next(card for card in cards(text) if card["kind"] == "message" and "from rank 0" in card["head"])
    assert card["head"] == "8 bytes from rank 0 to rank 1"
    assert card["rows"] == [["began", "round 0"], ["arrived", "round 1"], ["took", "1 round"]]
    assert card["lines"][0] == ["rank 0 sends", 7, "dist.send(x, 1)  # here"]


def test_a_message_shares_a_key_with_the_waits_for_it() -> None:
    found = cards(html("ring of 4"))
    message = next(card for card in found if card["kind"] == "message")
    assert any(set(message["keys"]) & set(card["keys"]) for card in found if card["kind"] == "wait")


def rows(text: str) -> list[list[str]]:
    body = re.search(r"<tbody>(.*)</tbody>", text, re.DOTALL)
    assert body
    return [re.findall(r"<t[dh]>([^<]*)</t[dh]>", row) for row in re.findall(r"<tr[^>]*>(.*?)</tr>", body[1])]


TABLES = {
    "a right run": ("ring of 4", 0, ["0", "returned", "6", "24 KiB", "6", "6", "0", "0%"]),
    "a deadlock": ("deadlock of 4", 0, ["0", "deadlocked in send", "2", "32 B", "never", "1", "forever", "-"]),
    "a rank that raised": ("missing rank", 3, ["3", "raised ValueError", "0", "0 B", "0", "2", "2", "0", "0", "0%"]),
    "a killed rank": ("faults", 4, ["4", "killed", "0", "0 B", "3", "3", "0", "0", "0%"]),
}


@pytest.mark.parametrize(("name", "rank", "expected"), TABLES.values(), ids=TABLES.keys())
def test_the_table_has_a_row_for_each_rank(name: str, rank: int, expected: list[str]) -> None:
    assert rows(html(name))[rank] == expected


def test_only_one_part_is_reached_by_tab_and_the_rest_by_arrows() -> None:
    found = [attrs for _, attrs in Tags(html("ring of 4")).found if "data-i" in attrs]
    assert {attrs["tabindex"] for attrs in found} == {"-1"}, "page.js makes the first one 0"
    assert all(attrs["aria-label"] for attrs in found)
