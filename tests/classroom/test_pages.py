"""Feedback pages: what they say, and that nobody can write on them but us."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from html import escape

import pytest
from sample_pages import DEADLOCK, HOSTILE, PASSED, SOURCE, SVG, WRONG, Page, assert_safe, lost, verdict

from grader import grading, registry
from grader.classroom.pages import feedback
from grader.classroom.pages.findings import findings, gist, lines_of, marks
from grader.classroom.pages.words import clean
from grader.ranks.engines import Engines
from grader.submission import Submission
from grader.verdict import CheckResult, Diagnosis, Verdict


def test_the_page_tells_points_the_sentence_the_line_the_values_and_what_to_read() -> None:
    page = assert_safe(
        feedback.page(verdict(lost("sum", WRONG), PASSED), SOURCE, learner="Ada", when="today", note="Late.")
    )
    told = " ".join(page.text.split())
    for words in (
        "3 of 7 points", "Ada", "today", "Late.", "element 1 holds the value of rank 0 alone", "−4 points in sum",
        "chapter 06", "section The ring", "sends 1 message of 24 bytes in this run", "seed 7",
    ):  # fmt: skip
        assert words in told
    assert "#L6" in page.links
    assert page.tags.count("svg") == 1 + 2 + 2  # points in all, points of each check, diagrams


def test_a_deadlock_marks_the_line_it_names_and_the_other_that_it_mentions() -> None:
    found = findings([lost("sum", DEADLOCK)])
    told = {mark.line: (mark.tone, mark.words) for mark in marks(found, lines_of(SOURCE), [None], ["ring_all_reduce"])}
    assert told[6] == ("blame", "Deadlock, a cycle of 2 ranks: rank 0 waits to send 24 bytes to rank 1, rank 1 waits "
                                "to receive 24 bytes from rank 0 (line 7: `dist.recv(tensor, right)`).")  # fmt: skip
    assert told[7] == ("also", "rank 1 waits to receive 24 bytes from rank 0")


def test_without_a_line_and_a_run_the_function_is_marked() -> None:
    found = findings([lost("sum", WRONG)])
    [mark] = marks(found, lines_of(SOURCE), [None], ["ring_all_reduce"])
    assert (mark.line, mark.tone) == (4, "also")


def test_a_line_that_the_learner_only_quotes_is_not_marked() -> None:
    fake = Diagnosis("crash", "Rank 0 raised ValueError: see there (line 3: `import os`).", line=99)
    assert marks(findings([lost("sum", fake)]), lines_of(SOURCE), [None], []) == []


def test_the_same_mistake_in_several_checks_is_told_once() -> None:
    other = replace(WRONG, message="Not judged, because the sum is wrong. With 4 ranks, x[::3] of 9 int64: on rank 2, "
                                   "7 of 9 elements are wrong: element 3 holds the value of rank 1 alone.")  # fmt: skip
    checks = [
        lost("sum", WRONG),
        lost("bytes", other),
        lost("steps", DEADLOCK),
        lost("large", replace(DEADLOCK, rank=1)),
    ]
    assert [[check.name for check in found.checks] for found in findings(checks)] == [
        ["sum", "bytes"],
        ["steps", "large"],
    ]
    page = assert_safe(feedback.page(verdict(*checks), SOURCE))
    assert "The same in check bytes" in page.text
    assert "2 things to fix" in page.text
    apart = replace(other, message=other.message.replace("alone", "twice"))
    page = assert_safe(feedback.page(verdict(lost("sum", WRONG), lost("bytes", apart)), SOURCE))
    assert "One thing to fix, and 1 check not judged yet" in page.text


def test_different_mistakes_of_one_kind_are_told_apart() -> None:
    assert gist(WRONG.message) != gist(WRONG.message.replace("alone", "twice"))


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (
            CheckResult("sum", "Sum", 0, 4, "error", Diagnosis("crash", "Not graded: it broke.")),
            "grading itself failed",
        ),
        (CheckResult("sum", "Sum", 0, 4, "skipped", Diagnosis("unsupported_engine", "Not run.")), "Not judged"),
        (CheckResult("sum", "Sum", 0, 4, "fail"), "No reason was recorded"),
        (lost("sum", Diagnosis("syntax_error", "It is not Python.", line=4)), "Not valid Python"),
    ],
    ids=["error", "skipped", "no reason", "syntax error"],
)
def test_every_ending_of_a_check_is_told(check: CheckResult, words: str) -> None:
    assert words in assert_safe(feedback.page(verdict(check), SOURCE)).text


def test_full_marks_fold_the_runs_and_the_code() -> None:
    page = assert_safe(feedback.page(verdict(PASSED), SOURCE))
    assert "to fix" not in page.text
    assert "What is right" in page.text
    assert page.tags.count("details") == 2


def test_nothing_known_of_exercise_and_source_is_no_obstacle() -> None:
    assert_safe(feedback.page(replace(verdict(lost("sum", DEADLOCK)), exercise="no_such"), ""))
    assert_safe(feedback.page(Verdict("ring_all_reduce", (), 0, 0.0, ()), ""))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_text_adds_no_element_to_a_feedback_page(text: str) -> None:
    def page(words: str) -> Page:
        found = replace(DEADLOCK, message=f"Rank 0 raised {words} here.", file=words, expected=words, got=words)
        drawn = SVG.replace("began round 0", escape(words))
        check = lost("sum", found, output=words, diagram=drawn)
        source = SOURCE.replace("right)", f"right)  # {words}")
        return assert_safe(feedback.page(verdict(check, PASSED), source, learner=words, when=words, note=words))

    assert page(text).tags == page("harmless").tags


def test_a_hostile_submission_gets_a_harmless_page(engines: Engines) -> None:
    evil = "<script>alert(1)</script></style>]]>\x1b[31m\u202e' onload='x"
    source = (
        f"import torch.distributed as dist\nEVIL = {evil!r}\n"
        "Bad = type(EVIL, (Exception,), {})\n\n\ndef ring_all_reduce(tensor):\n    print(EVIL)\n"
        f"    if dist.get_world_size() > 1: raise Bad(EVIL)  # {evil}\n"
    )
    result = grading.grade(registry.find("ring_all_reduce"), Submission(source, f"{evil}.py"), engines, 7)
    assert result.checks[0].diagnosis is not None
    assert result.checks[0].diagnosis.kind == "crash"
    page = assert_safe(feedback.page(result, source, learner=evil))
    assert page.tags.count("figcaption") == 1  # the diagram was fit to be shown
    assert "alert(1)" in page.text


def test_much_output_is_cut_in_the_middle() -> None:
    output = f"begins{'x' * 2**20}ends"
    text = feedback.page(verdict(lost("sum", DEADLOCK, output=output)), SOURCE)
    assert len(text) < 60_000
    assert "begins" in text
    assert "ends</pre>" in text
    assert "characters left out" in text


def test_a_long_source_is_folded_around_the_marked_line() -> None:
    source = "\n".join(f"x{number} = {number}" for number in range(1, 100_001))
    page = assert_safe(feedback.page(verdict(lost("sum", replace(DEADLOCK, line=50_000))), source))
    assert "L50000" in page.ids
    assert "x50000 = 50000" in page.text
    assert "lines 1 to 49,994 left out" in page.text
    assert len(page.ids) < 100


@pytest.mark.parametrize(
    "source", ["x" * 10**6, "(" * 3000, "'''" + "\n" * 5000, "\x00" * 1000, "if x:\n\t\tpass\n  y", "\\\n" * 500]
)
def test_odd_sources_are_shown_all_the_same(source: str) -> None:
    found = replace(DEADLOCK, line=1)
    assert len(feedback.page(verdict(lost("sum", found)), source)) < 500_000
    assert_safe(feedback.page(verdict(lost("sum", found)), source))


def test_lines_are_counted_as_python_counts_them() -> None:
    assert lines_of("a\x0cb\u2028c\r\nd\re\n") == ["a\x0cb\u2028c", "d", "e"]


def test_names_in_other_scripts_stay_as_they_are() -> None:
    for name in ("Đorđe Çiğdem", "محمد", "王小明", "नेहा", "می‌خواهم", "👩‍💻"):
        assert clean(name) == name
        assert not any(unicodedata.category(c) == "Cc" for c in clean(name))
