"""The page that watch serves: to whom knows its address, and told anew when there is another."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from grader.classroom import live


@pytest.fixture
def page() -> Iterator[live.Live]:
    with contextlib.closing(live.Live()) as made:
        made.show("<html>one</html>")
        yield made


@pytest.mark.parametrize(
    ("host", "path", "found"),
    [
        ("{origin}", "{key}", True),
        ("{origin}", "/", False),
        ("{origin}", "/guess/", False),
        ("{origin}", "{key}../", False),
        ("evil.example", "{key}", False),  # a name that somebody had resolve to this host
        ("", "{key}", False),
    ],
)
def test_it_is_for_whom_knows_the_address(page: live.Live, host: str, path: str, found: bool) -> None:
    key = page.url.removeprefix(f"http://{page.origin}")
    assert (page.answer(host.format(origin=page.origin), path.format(key=key)) is not None) == found


def test_a_browser_is_told_when_there_is_another_page(page: live.Live) -> None:
    key = page.url.removeprefix(f"http://{page.origin}")
    assert page.answer(page.origin, key) == ("text/html; charset=utf-8", b'<html data-version="1">one</html>')
    told: list[object] = []
    waiting = threading.Thread(target=lambda: told.append(page.answer(page.origin, f"{key}changes/1")))
    waiting.start()
    page.show("<html>two</html>")
    waiting.join(60)
    assert told == [("text/plain", b"new")]
    assert page.answer(page.origin, f"{key}changes/1") == ("text/plain", b"new"), "who was late is told at once"
