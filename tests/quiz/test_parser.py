"""The file format: what a card becomes, and one sentence with FILE:LINE for everything else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.quiz.deck import Card, DeckError, Number, Option
from grader.quiz.folder import load_folder
from grader.quiz.parser import parse

HEAD = '---\ndeck: "06"\ntitle: Collectives\n---\n'
KEYS = "## a\nlevel: mid\ntopic: t\nkind: qa\n"
SIDES = "\nQ?\n\n---\n\nA.\n"
NUMBER = "## a\nlevel: mid\ntopic: t\nkind: number\n"
CLOZE = "## a\nlevel: mid\ntopic: t\nkind: cloze\n"
ONE = "answer: 1\nunit: x\nformula: 1\n"
CHOICE = CLOZE.replace("cloze", "choice")
ORDER = CLOZE.replace("cloze", "order")
BUG = CLOZE.replace("cloze", "bug")
DIAGRAM = CLOZE.replace("cloze", "diagram")
PICTURE = "picture: pictures/x.svg\nalt: Two ranks.\n"
OPTIONS = "- [ ] one\n  Too few.\n- [x] two\n- [ ] three\n  Too many,\n  by one.\n"
CODE = "\n```python\na = 1\n\nb = a\n```\n"
BECAUSE = "\n---\n\nBecause.\n"


def only_card(body: str) -> Card:
    (card,) = parse(HEAD + body, "06.md").cards
    return card


def test_a_deck_has_its_id_title_and_cards_in_order() -> None:
    deck = parse(HEAD + KEYS + SIDES + KEYS.replace("## a", "## b") + SIDES, "06.md")
    assert (deck.id, deck.title, [card.id for card in deck.cards]) == ("06", "Collectives", ["a", "b"])


def test_a_card_has_its_keys_question_and_answer() -> None:
    card = only_card(KEYS + "question: q-ring\n" + SIDES)
    assert card == Card("a", "06", "mid", "t", "qa", "Q?", "A.", asks="q-ring", line=5)


def test_lines_that_end_as_on_windows_are_the_same() -> None:
    text = HEAD + KEYS + SIDES
    assert parse(text.replace("\n", "\r\n"), "06.md") == parse(text, "06.md")


@pytest.mark.parametrize("fence", ["```", "~~~~", "  ```python"])
def test_a_heading_and_a_rule_in_a_code_fence_are_code(fence: str) -> None:
    closing = fence.strip().removesuffix("python")
    code = f"{fence}\n## no card\n---\n~~\n{closing}"
    card = only_card(KEYS + f"\n{code}\n\n---\n\nBefore\n{code}\n")
    assert (card.question, card.answer) == (code, f"Before\n{code}")


@pytest.mark.parametrize("other", ["~~~~", "```"])
def test_a_fence_is_closed_by_its_own_kind_only(other: str) -> None:
    assert only_card(KEYS + f"\n````\n{other}\n## x\n````\n---\nA.\n").answer == "A."


def test_code_within_a_line_is_no_fence() -> None:
    assert only_card(KEYS + "\n```x``` is code?\n---\nA.\n").answer == "A."


def test_code_that_begins_a_question_keeps_its_indentation() -> None:
    assert only_card(KEYS + "\n\n    x = 1\n\n---\nA.\n").question == "    x = 1"


def test_a_cloze_hides_its_parts_and_answers_with_them() -> None:
    card = only_card(CLOZE + "\n{{ring}} sends {{2(N-1)}} chunks.\n")
    assert (card.question, card.answer) == ("[...] sends [...] chunks.", "**ring** sends **2(N-1)** chunks.")


def test_a_cloze_may_explain_itself() -> None:
    assert only_card(CLOZE + "\nA {{b}}.\n\n---\n\nBecause.\n").answer == "A **b**.\n\nBecause."


def test_a_number_has_value_unit_and_tolerance() -> None:
    card = only_card(NUMBER + 'answer: 1.5\nunit: "GiB"\ntolerance: 0.1\nformula: 3 / 2\n' + SIDES)
    assert card.number == Number(1.5, "GiB", 0.1, "3 / 2")


def test_a_choice_has_options_with_reasons_and_tells_them_again() -> None:
    card = only_card(CHOICE + "\nHow many?\n\n" + OPTIONS + BECAUSE)
    assert card.question == "How many?"
    assert card.options == (
        Option("one", False, "Too few."),
        Option("two", True),
        Option("three", False, "Too many,\nby one."),
    )
    told = ["- **Right:** two", "- **Wrong:** one  ", "  Too few.", "- **Wrong:** three  ", "  Too many,", "  by one."]
    assert card.answer.split("\n") == [*told, "", "Because."]


def test_options_in_code_are_no_options() -> None:
    assert only_card(CHOICE + "\n```\n- [x] a\n```\n" + OPTIONS + BECAUSE).question == "```\n- [x] a\n```"


def test_an_order_has_its_steps_and_may_explain_itself() -> None:
    card = only_card(ORDER + "\nQ?\n---\n1. first\n   thing\n2. b\n\n3. c\n\nBecause.\n")
    assert card.steps == ("first thing", "b", "c")
    assert card.answer.endswith("3. c\n\nBecause.")


def test_a_bug_has_its_line_and_answers_with_it() -> None:
    card = only_card(BUG + "line: 3\n" + CODE + BECAUSE)
    assert (card.bug_line, card.answer) == (3, "Line 3: ``b = a``\n\nBecause.")


def test_a_diagram_has_its_picture_and_what_it_shows() -> None:
    card = only_card(DIAGRAM + PICTURE + SIDES)
    assert (card.picture, card.alt, card.question) == ("pictures/x.svg", "Two ranks.", "Q?")


@pytest.mark.parametrize(
    ("value", "tolerance", "typed", "right"),
    [(100, 0.02, 102, True), (100, 0.02, 97.9, False), (-100, 0.02, -98, True), (0, 0.5, 0.1, False), (3, 0, 3, True)],
)
def test_tolerance_is_relative_to_the_answer(value: float, tolerance: float, typed: float, right: bool) -> None:
    assert Number(value, "x", tolerance).accepts(typed) is right


BROKEN = {
    "empty file": ("", 1, "must begin with `deck:`, `title:`"),
    "front matter that never ends": ("---\ndeck: 06\n", 1, "between two lines `---`"),
    "no title": ("---\ndeck: 06\n---\n", 1, "'title' is missing"),
    "a deck that is no id": ("---\ndeck: A b\ntitle: x\n---\n", 1, "it should be an id"),
    "an unknown key of the deck": ("---\ndeck: 06\ntitle: x\nauthor: y\n---\n", 4, "unknown key 'author'"),
    "text before the first card": (HEAD + "\nHello.\n" + KEYS + SIDES, 6, "expected a card"),
    "no id": (HEAD + "## A b\n" + SIDES, 5, "not an id for a card"),
    "a heading without id": (HEAD + "##\n" + SIDES, 5, "not an id for a card"),
    "no keys": (HEAD + "## a\n" + SIDES, 5, "'level' and 'topic' and 'kind' is missing"),
    "a line that is no key": (HEAD + KEYS + "What?\n" + SIDES, 9, "expected `key: value`"),
    "a key without value": (HEAD + KEYS + "question:\n" + SIDES, 9, "expected `key: value`"),
    "an unknown key": (HEAD + KEYS + "tags: x\n" + SIDES, 9, "unknown key 'tags'"),
    "a key of another kind": (HEAD + KEYS + "unit: x\n" + SIDES, 9, "unknown key 'unit'"),
    "a key twice": (HEAD + KEYS + "level: mid\n" + SIDES, 9, "'level' is given twice"),
    "an unknown level": (
        HEAD + KEYS.replace("mid", "junior") + SIDES,
        5,
        "has level 'junior'; it should be 'mid', 'senior' or 'principal'",
    ),
    "an unknown kind": (HEAD + KEYS.replace("qa", "essay") + "unit: x\n" + SIDES, 5, "it should be 'qa', 'cloze'"),
    "no answer": (HEAD + KEYS + "\nQ?\n", 5, "no line `---`"),
    "an empty question": (HEAD + KEYS + "\n---\nA.\n", 5, "empty question"),
    "an empty answer": (HEAD + KEYS + "\nQ?\n---\n \n", 5, "empty answer"),
    "a second rule": (HEAD + KEYS + SIDES + "---\n", 15, "second line `---`"),
    "an open fence": (HEAD + KEYS + "\nQ?\n---\n```\n## x\n", 12, "never closed"),
    "a fence closed with a word": (HEAD + KEYS + "\nQ?\n---\n```\n``` x\n", 12, "never closed"),
    "an id twice": (HEAD + (KEYS + SIDES) * 2, 15, "also at line 5"),
    "a cloze that hides nothing": (HEAD + CLOZE + "\nQ?\n", 5, "hides nothing"),
    "a cloze with an empty part": (HEAD + CLOZE + "\n{{a}} {{ }}\n", 5, "hides nothing"),
    "a number without unit": (HEAD + NUMBER + "answer: 1\nformula: 1\n" + SIDES, 5, "'unit' is missing"),
    "a number that is none": (
        HEAD + NUMBER + ONE.replace("1", "ten", 1) + SIDES,
        5,
        "answer 'ten'; it should be a number",
    ),
    "an infinite number": (HEAD + NUMBER + ONE.replace("1", "inf", 1) + SIDES, 5, "answer 'inf'"),
    "no formula": (HEAD + NUMBER + "answer: 1\nunit: x\n" + SIDES, 5, "'formula' is missing"),
    "a tolerance of 2": (HEAD + NUMBER + ONE + "tolerance: 2\n" + SIDES, 5, "tolerance '2'"),
    "a choice without options": (HEAD + CHOICE + "\nQ?\n" + BECAUSE, 5, "has no options"),
    "a choice of nothing": (HEAD + CHOICE + "\n" + OPTIONS + BECAUSE, 5, "empty question"),
    "a choice of two": (HEAD + CHOICE + "\nQ?\n- [x] a\n- [ ] b\n  No.\n" + BECAUSE, 5, "2 options; a choice"),
    "a choice without explanation": (HEAD + CHOICE + "\nQ?\n" + OPTIONS, 5, "no line `---`"),
    "no right option": (HEAD + CHOICE + "\nQ?\n" + OPTIONS.replace("x] two", " ] two\n  No.") + BECAUSE, 5, "no right"),
    "no wrong option": (HEAD + CHOICE + "\nQ?\n" + OPTIONS.replace("[ ]", "[x]") + BECAUSE, 5, "no wrong option"),
    "a wrong option without why": (
        HEAD + CHOICE + "\nQ?\n" + OPTIONS.replace("  Too few.\n", "") + BECAUSE,
        11,
        "does not say why 'one' is wrong",
    ),
    "an empty option": (HEAD + CHOICE + "\nQ?\n" + OPTIONS.replace(" two", "") + BECAUSE, 13, "an empty option"),
    "an option twice": (HEAD + CHOICE + "\nQ?\n" + OPTIONS.replace("two", "one") + BECAUSE, 13, "'one' twice"),
    "text after the options": (HEAD + CHOICE + "\nQ?\n" + OPTIONS + "More.\n" + BECAUSE, 17, "expected an item"),
    "a mark that is none": (HEAD + CHOICE + "\nQ?\n" + OPTIONS + "- [y] four\n" + BECAUSE, 17, "expected an item"),
    "an order of two": (HEAD + ORDER + "\nQ?\n---\n1. a\n2. b\n", 5, "2 steps; begin its answer"),
    "an order that does not begin": (HEAD + ORDER + "\nQ?\n---\nSo:\n1. a\n2. b\n3. c\n", 5, "has 0 steps"),
    "an order that leaves one out": (HEAD + ORDER + "\nQ?\n---\n1. a\n2. b\n4. c\n", 14, "expected step 3, not 4"),
    "an empty step": (HEAD + ORDER + "\nQ?\n---\n1. a\n2.\n3. c\n", 13, "an empty step"),
    "a step twice": (HEAD + ORDER + "\nQ?\n---\n1. a\n2. b\n3. a\n", 5, "the same step twice"),
    "a bug without line": (HEAD + BUG + CODE + BECAUSE, 5, "'line' is missing"),
    "a bug without code": (HEAD + BUG + "line: 1\n" + SIDES, 5, "0 fenced blocks of code"),
    "a bug in one of two": (HEAD + BUG + "line: 1\n" + CODE * 2 + BECAUSE, 5, "2 fenced blocks of code"),
    "a bug below the code": (HEAD + BUG + "line: 4\n" + CODE + BECAUSE, 5, "line 4, but the code has lines 1 to 3"),
    "a bug at line 0": (HEAD + BUG + "line: 0\n" + CODE + BECAUSE, 5, "line 0"),
    "a bug at no line": (
        HEAD + BUG + "line: \u00b2\n" + CODE + BECAUSE,
        5,
        "line '\u00b2'; it should be a valid integer",
    ),
    "a bug at an empty line": (HEAD + BUG + "line: 2\n" + CODE + BECAUSE, 5, "line 2, which is empty"),
    "a bug in an empty block": (HEAD + BUG + "line: 1\n\n```\n```\n" + BECAUSE, 5, "code has lines 1 to 0"),
    "a diagram without picture": (HEAD + DIAGRAM + "alt: x\n" + SIDES, 5, "'picture' is missing"),
    "a diagram that is not told": (HEAD + DIAGRAM + "picture: x.svg\n" + SIDES, 5, "'alt' is missing"),
    "a picture elsewhere": (HEAD + DIAGRAM + PICTURE.replace("pictures", "..") + SIDES, 5, "it should be a path like"),
    "a picture that is no SVG": (HEAD + DIAGRAM + PICTURE.replace("svg", "png") + SIDES, 5, "it should be a path like"),
}


@pytest.mark.parametrize(("text", "line", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_one_sentence_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(DeckError) as caught:
        parse(text, "cards/06.md")
    assert str(caught.value).startswith(f"cards/06.md:{line}: ")
    assert words in str(caught.value)
    assert len(caught.value.problems) == 1


def test_all_broken_cards_of_a_file_are_found_at_once() -> None:
    with pytest.raises(DeckError) as caught:
        parse(HEAD + "## a\n" + KEYS.replace("## a", "## b"), "06.md")
    assert [problem.split(": ")[0] for problem in caught.value.problems] == ["06.md:5", "06.md:6"]


FOLDERS = {
    "a card in two decks": (
        {"06.md": HEAD + KEYS + SIDES, "07.md": HEAD.replace("06", "07") + KEYS + SIDES},
        "07.md:5: card 'a' is also at",
    ),
    "two decks of one id": ({"06.md": HEAD, "07.md": HEAD}, "07.md:1: deck '06' is also"),
    "not UTF-8": ({"06.md": (HEAD + "\xff").encode("latin-1")}, "06.md:5: not UTF-8, byte 0xff"),
    "a broken file": ({"06.md": ""}, "06.md:1: "),
}


@pytest.mark.parametrize(("files", "words"), FOLDERS.values(), ids=FOLDERS.keys())
def test_a_folder_with_something_broken_is_one_sentence(
    tmp_path: Path, files: dict[str, str | bytes], words: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DeckError, match=r"\A[^\n]*\Z") as caught:
        load_folder(tmp_path)
    assert words in str(caught.value)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "06.md").mkdir()
    with pytest.raises(DeckError, match="cannot be read: Is a directory"):
        load_folder(tmp_path)


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "06.md").write_text(HEAD + KEYS + SIDES, encoding="utf-8-sig")
    assert load_folder(tmp_path)[0].id == "06"


def test_decks_come_in_the_order_of_their_ids(tmp_path: Path) -> None:
    for file, number in (("a.md", "07"), ("b.md", "06")):
        (tmp_path / file).write_text(HEAD.replace("06", number))
    assert [deck.id for deck in load_folder(tmp_path)] == ["06", "07"]


IDS = st.from_regex(r"[a-z0-9]+(-[a-z0-9]+)*", fullmatch=True)
PIECES = [
    *(HEAD + KEYS + "question: q\nanswer: 1\nunit: x\n").split("\n"),
    "## b",
    "##",
    "```",
    "~~~",
    "{{x}}",
    "kind: cloze",
    *("kind: number", "kind: choice", "kind: order", "kind: bug", "kind: diagram", "line: 1", "formula: 1"),
    *(OPTIONS + PICTURE + "1. a\n2. b\n3. c").split("\n"),
]
LINES = st.lists(st.sampled_from([*PIECES, "\x85", "\r", "\x00"]) | st.text(max_size=8)).map("\n".join)


@given(st.lists(IDS, unique=True))
def test_ids_come_back_in_order(ids: list[str]) -> None:
    deck = parse(HEAD + "".join(KEYS.replace("## a", f"## {each}") + SIDES for each in ids), "06.md")
    assert [card.id for card in deck.cards] == ids


BEGUN = st.sampled_from(
    [
        HEAD,
        HEAD + KEYS,
        HEAD + NUMBER + ONE,
        HEAD + CHOICE + "\nQ?\n",
        HEAD + ORDER + "\nQ?\n---\n",
        HEAD + BUG + "line: 2\n",
    ]
)


@given(st.text() | LINES | st.builds("{}{}".format, BEGUN, LINES))
def test_any_text_is_a_deck_or_a_sentence(text: str) -> None:
    try:
        deck = parse(text, "06.md")
    except DeckError as error:
        for problem in error.problems:
            number = re.fullmatch(r"06\.md:([0-9]+): [^\n]+", problem)
            assert number, problem
            assert 1 <= int(number[1]) <= text.count("\n") + 1, problem
    else:
        assert all(card.question.strip() and card.answer.strip() for card in deck.cards)
