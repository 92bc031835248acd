"""Each thing that can be wrong with the cards, and that nothing else is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.quiz.lint import problems

TOPICS = {"ring": ["mid"], "tree": ["mid", "senior"]}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"></svg>'


def card(name: str, topic: str, level: str, more: str = "", question: str = "Q?", answer: str = "A.") -> str:
    return f"\n## {name}\nlevel: {level}\ntopic: {topic}\nkind: qa\n{more}\n{question}\n\n---\n\n{answer}\n"


def deck(*cards: str, number: str = "06") -> str:
    return f'---\ndeck: "{number}"\ntitle: T\n---\n' + "".join(cards)


def picture(name: str = "pictures/p.svg") -> str:
    return card("p", "ring", "mid").replace("kind: qa", f"kind: diagram\npicture: {name}\nalt: A run.")


def number_card(formula: str) -> str:
    return card("n", "ring", "mid").replace("kind: qa", f"kind: number\nanswer: 1\nunit: x\nformula: {formula}")


GOOD = (card("a", "ring", "mid", "question: q-a\n"), card("b", "tree", "mid"), card("c", "tree", "senior"))
CASES = {
    "nothing": ({"06.md": deck(*GOOD)}, []),
    "no card of a level": ({"06.md": deck(*GOOD[:2])}, ["topic 'tree' has no card of level senior"]),
    "an interview question without a card": (
        {"06.md": deck(GOOD[0].replace("question: q-a\n", ""), *GOOD[1:])},
        ["interview question 'q-a' has no card"],
    ),
    "a picture": ({"06.md": deck(*GOOD, picture()), "pictures/p.svg": SVG}, []),
    "no picture": ({"06.md": deck(*GOOD, picture())}, ["p.svg cannot be read: No such file"]),
    "a picture on no card": ({"06.md": deck(*GOOD), "pictures/p.svg": SVG}, ["p.svg: no card shows this picture"]),
    "a picture that is cut short": (
        {"06.md": deck(*GOOD, picture()), "pictures/p.svg": SVG[:-3]},
        ["06.md:40: card 'p': "],
    ),
    "a picture that is a page": (
        {"06.md": deck(*GOOD, picture()), "pictures/p.svg": "<html></html>"},
        ["is not an SVG: its root is 'html'"],
    ),
    "a picture without size": (
        {"06.md": deck(*GOOD, picture()), "pictures/p.svg": SVG.replace("viewBox", "box")},
        ["neither a viewBox nor"],
    ),
    "a picture that is too large": (
        {"06.md": deck(*GOOD, picture()), "pictures/p.svg": SVG + " " * 40_000},
        ["bytes; at most 40,000"],
    ),
    "an unknown topic": ({"06.md": deck(*GOOD, card("d", "star", "mid"))}, ["06.md:40: card 'd' is about 'star'"]),
    "a level not asked for": (
        {"06.md": deck(*GOOD, card("d", "ring", "senior"))},
        ["06.md:40: card 'd' has level senior, but 'ring' is not asked at this level"],
    ),
    "an unknown level": ({"06.md": deck(*GOOD, card("d", "ring", "guru"))}, ["06.md:40: card 'd' has level 'guru'"]),
    "a formula that gives another number": (
        {"06.md": deck(*GOOD, number_card("2"))},
        ["06.md:40: card 'n' has formula '2' gives 2, but the answer is 1"],
    ),
    "a formula that is none": (
        {"06.md": deck(*GOOD, number_card("one"))},
        ["card 'n' has formula 'one': it cannot be"],
    ),
    "an unknown question": (
        {"06.md": deck(*GOOD, card("d", "ring", "mid", "question: q-z\n"))},
        ["06.md:40: card 'd' belongs to 'q-z'"],
    ),
    "an empty question and an empty answer": (
        {
            "06.md": deck(*GOOD),
            "07.md": deck(card("d", "ring", "mid", question=""), card("e", "ring", "mid", answer=""), number="07"),
        },
        ["07.md:6: card 'd' has an empty question", "07.md:17: card 'e' has an empty answer"],
    ),
    "one id in two decks": (
        {"06.md": deck(*GOOD), "07.md": deck(card("a", "ring", "mid"), number="07")},
        ["07.md:6: card 'a' is also at"],
    ),
}


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES.keys())
def test_what_is_wrong_is_said_and_nothing_else(tmp_path: Path, files: dict[str, str], expected: list[str]) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = problems(tmp_path, TOPICS, {"q-a"})
    assert len(found) == len([each for each in expected if any(each in one for one in found)]) == len(expected), found


def test_no_folder_is_one_problem(tmp_path: Path) -> None:
    assert problems(tmp_path / "x", TOPICS, ()) == [f"{tmp_path / 'x'}: no such folder of cards"]
