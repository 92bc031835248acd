"""What full marks end with: the numbers in words, and the card."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from grader import progress
from grader.classroom import card, numbers, report
from grader.classroom.pages import feedback
from grader.classroom.terminal import TerminalReport
from grader.submission import BadRequest
from grader.verdict import CheckResult, Measured, Verdict

RING = "ring_all_reduce"
TIME = Measured("virtual time", 268e-6, 833e-6, "s", "24 ranks", reference=833e-6, of="the <flat> ring")
RUN = '<svg xmlns="http://www.w3.org/2000/svg" width="900" height="700"><path d="M0 0" stroke="#1f5fbf"/></svg>'


def verdict(*measured: Measured) -> Verdict:
    checks = (
        CheckResult("sum", "The sum", 4, 4, "pass"),
        CheckResult("time", "The time", 3, 3, "pass", diagram=RUN, measured=measured),
    )
    return Verdict(RING, checks, 7, 1.0, ("sim",))


@pytest.mark.parametrize(
    ("number", "yours", "allowed", "remark"),
    [
        (TIME, "268 us", "at most 833 us", "3.11x faster than the <flat> ring"),
        (Measured("a", 1440, 1440, "bytes"), "1,440 bytes", "at most 1,440 bytes", "exactly the bound"),
        (Measured("a", 1 + 1e-9, 4, "messages"), "1 message", "at most 4 messages", "25 % of what is allowed"),
        (Measured("a", 4, 2, "calls", at_least=True), "4 calls", "at least 2 calls", "2x the bound"),
        (Measured("a", 30, 31, "bytes", reference=20, of="DDP"), "30 bytes", "at most 31 bytes", "1.5x more than DDP"),
        (Measured("a", 20, 31, "%", reference=20.2, of="DDP"), "20 %", "at most 31 %", "about the same as DDP"),
        (Measured("a", 0, 3, "jobs", reference=5, of="DDP"), "0 jobs", "at most 3 jobs", "DDP: 5 jobs"),
        (Measured("a", 0, 0, "jobs"), "0 jobs", "at most 0 jobs", "exactly the bound"),
    ],
)
def test_a_number_in_words(number: Measured, yours: str, allowed: str, remark: str) -> None:
    [row] = numbers.rows(verdict(number).checks)
    assert (row.yours, row.allowed, row.remark) == (yours, allowed, remark)


def test_numbers_are_on_every_road(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    TerminalReport().summary(verdict(TIME))
    for said in (capsys.readouterr().out, feedback.page(verdict(TIME), ""), report.verdict_html(verdict(TIME))):
        assert "268 us" in said
        assert "3.11x faster than the" in said
        assert "<flat>" not in said or "Your numbers\n" in said, "escaped, but in the terminal"
    assert verdict(TIME).to_json()["checks"][1]["measured"][0]["yours"] == 268e-6
    assert Verdict.from_report(verdict(TIME).report_json()).checks[1].measured == (TIME,)


def test_a_card_is_for_full_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path))
    with pytest.raises(BadRequest, match="is for full marks, and you have not graded it yet"):
        card.card(RING)
    lost = Verdict(RING, (CheckResult("sum", "The sum", 0, 4, "error"),), 7, 1.0, ("sim",))
    progress.record(lost)
    with pytest.raises(BadRequest, match="you have 0 of 4 points"):
        card.card(RING)
    progress.record(verdict(TIME))
    progress.record(lost)
    drawn = card.card(RING, by="Ada <L>")
    ElementTree.fromstring(drawn)
    for word in ("Ring all-reduce", "7 / 7", "268 us", "3.11x faster than", "Ada &lt;L&gt;", "seed 7", "M0 0"):
        assert word in drawn
    assert "prefers-color-scheme: dark" in drawn


def test_a_card_without_numbers_shows_the_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path))
    progress.record(verdict())
    assert "The time" in card.card(RING)


def test_what_is_kept_of_a_verdict_is_the_picture_of_its_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path))
    seen: list[str] = []

    def drawn(name: str, wide: int) -> Any:
        def draw() -> str:
            seen.append(name)
            return RUN.replace("900", str(wide)).replace("M0 0", f"M0 0H{len(name)}")

        return draw

    def whole() -> Verdict:
        numbers = {"none": (), "tiny": (TIME, TIME), "one": (TIME,), "alike": (TIME,), "few": ()}
        wide = {"none": 700, "tiny": 9000, "one": 900, "alike": 900, "few": 600}
        return Verdict(
            RING,
            tuple(CheckResult(n, n, 4, 4, "pass", None, drawn(n, wide[n]), measured=numbers[n]) for n in numbers),
            7, 1.0, ("sim",),
        )  # fmt: skip

    progress.record(whole())
    expected, seen[:] = card.card(RING), []
    progress.record(card.kept(whole()))
    assert seen == ["tiny", "one", "alike"], "the first cannot be read, and no other has as much to do with numbers"
    assert card.card(RING) == expected
    assert "M0 0H3" in expected, "of two alike the first"
