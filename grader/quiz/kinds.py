"""What a card of each kind must hold, and what it becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from grader.quiz.deck import TOLERANCE, Number, Option, as_number
from grader.quiz.formula import disagreement
from grader.quiz.lines import Lines, broken, fences, text_of, unfenced

FEWEST = 3  # options of a choice, steps of an order
NEEDS = {  # the keys of a kind
    "qa": (),
    "cloze": (),
    "number": ("answer", "unit", "formula"),
    "choice": (),
    "order": (),
    "bug": ("line",),
    "diagram": ("picture", "alt"),
}
MAY = dict.fromkeys(NEEDS, ("question",)) | {"number": ("question", "tolerance")}
ANY = tuple(dict.fromkeys(key for keys in (*MAY.values(), *NEEDS.values()) for key in keys))

_HIDDEN = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_OPTION = re.compile(r"[-*] \[([ xX])\](.*)")
_STEP = re.compile(r"(\d{1,9})\.(?:[ \t]+(.*))?")
_PICTURE = re.compile(r"[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*\.svg")

Made = dict[str, Any]  # the fields of a Card


def make(kind: str, fields: Mapping[str, str], question: Lines, answer: Lines, name: str, line: int) -> Made:
    """The fields of a card's dataclass that depend on its kind. Raises BrokenError.

    `line` is where the card begins; both sides hold text already, except a cloze's answer.
    """
    made: Made = {"question": text_of(question), "answer": text_of(answer)}
    match kind:
        case "cloze":
            made |= _cloze(made["question"], made["answer"], name, line)
        case "number":
            made["number"] = _number(fields, name, line)
        case "choice":
            made |= _choice(question, made["answer"], name, line)
        case "order":
            made["steps"] = _steps(answer, name, line)
        case "bug":
            made |= _bug(question, made["answer"], fields["line"], name, line)
        case "diagram":
            if not _PICTURE.fullmatch(fields["picture"]):
                broken(line, f"card {name!r} has picture {fields['picture']!r}, which is no path like pictures/x.svg")
            made |= {"picture": fields["picture"], "alt": fields["alt"]}
    return made


def _cloze(text: str, explanation: str, name: str, line: int) -> Made:
    hidden = _HIDDEN.findall(text)
    if not hidden or not all(part.strip() for part in hidden):
        broken(line, f"card {name!r} is a cloze, but hides nothing: write {{{{like this}}}}")
    filled = _HIDDEN.sub(lambda found: str(found[1]).strip(), text)
    return {
        "question": _HIDDEN.sub("[...]", text),
        "answer": f"{filled}\n\n{explanation}".strip(),
        "cloze": text,
        "explanation": explanation,
    }


def _number(fields: Mapping[str, str], name: str, line: int) -> Number:
    numbers = {}
    for key, text in (("answer", fields["answer"]), ("tolerance", fields.get("tolerance", str(TOLERANCE)))):
        value = as_number(text)
        if value is None or (key == "tolerance" and not 0 <= value < 1):
            broken(
                line, f"card {name!r} has {key} {text!r}, which is no number" + " from 0 to 1" * (key == "tolerance")
            )
        numbers[key] = value
    number = Number(numbers["answer"], fields["unit"], numbers["tolerance"], fields["formula"])
    if wrong := disagreement(number, fields["answer"]):
        broken(line, f"card {name!r}: {wrong}")
    return number


def _choice(question: Lines, explanation: str, name: str, line: int) -> Made:
    starts = [index for index, (_, text) in unfenced(question) if _OPTION.fullmatch(text)]
    if not starts:
        broken(line, f"card {name!r} has no options: lines `- [ ] wrong` and `- [x] right` at the question's end")
    stem = text_of(question[: starts[0]])
    if not stem.strip():
        broken(line, f"card {name!r} has an empty question")
    options: list[Option] = []
    for start, end in zip(starts, [*starts[1:], len(question)], strict=True):
        options.append(_option(question[start:end], name))
        if options[-1].text in [option.text for option in options[:-1]]:
            broken(question[start][0], f"card {name!r} has the option {options[-1].text!r} twice")
    if len(options) < FEWEST:
        broken(line, f"card {name!r} has {len(options)} options; at least {FEWEST} make a choice")
    for right, word in ((True, "right"), (False, "wrong")):
        if not any(option.right is right for option in options):
            broken(line, f"card {name!r} has no {word} option")
    return {
        "question": stem,
        "answer": f"{_told(options)}\n\n{explanation}",
        "options": tuple(options),
        "explanation": explanation,
    }


def _option(lines: Lines, name: str) -> Option:
    """An option, of its line and what stands indented below it."""
    number, first = lines[0]
    found = _OPTION.fullmatch(first)
    assert found
    text, right = found[2].strip(), found[1] != " "
    for at, below in lines[1:]:
        if below.strip() and not below.startswith("  "):
            broken(
                at, f"card {name!r}: expected an option, or why one is wrong, indented below it; not {below.strip()!r}"
            )
    why = text_of([(at, below[2:]) for at, below in lines[1:]])
    if not text:
        broken(number, f"card {name!r} has an empty option")
    if not right and not why.strip():
        broken(number, f"card {name!r} does not say why {text!r} is wrong: write it indented below the option")
    return Option(text, right, why)


def _told(options: list[Option]) -> str:
    """The options once more, those that are right first, and why."""
    items = []
    for option in sorted(options, key=lambda option: not option.right):
        why = "".join(f"\n  {line}" if line else "\n" for line in option.why.split("\n")) if option.why else ""
        items.append(f"- **{'Right' if option.right else 'Wrong'}:** {option.text}{'  ' if why else ''}{why}")
    return "\n".join(items)


def _steps(answer: Lines, name: str, line: int) -> tuple[str, ...]:
    """The numbered list that an answer begins with."""
    steps: list[str] = []
    filled = [(number, text) for number, text in answer if text.strip()]
    for number, text in filled:
        if found := _STEP.fullmatch(text.rstrip()):
            if int(found[1]) != len(steps) + 1:
                broken(number, f"card {name!r}: expected step {len(steps) + 1}, not {found[1]}")
            if not (found[2] or "").strip():
                broken(number, f"card {name!r} has an empty step")
            steps.append(found[2].strip())
        elif steps and text.startswith("  "):
            steps[-1] += f" {text.strip()}"
        else:
            break
    if len(steps) < FEWEST:
        broken(line, f"card {name!r} has {len(steps)} steps; its answer begins with a list `1.` of at least {FEWEST}")
    if len(set(steps)) < len(steps):
        broken(line, f"card {name!r} has the same step twice")
    return tuple(steps)


def _bug(question: Lines, answer: str, typed: str, name: str, line: int) -> Made:
    found = list(fences(question))
    if len(found) != 1:
        broken(line, f"card {name!r} has {len(found)} fenced blocks of code in its question; one holds the bug")
    first, last = found[0]
    code = [text for _, text in question[first + 1 : last]]
    at = int(typed) if typed.isascii() and typed.isdigit() and len(typed) < 6 else 0
    if not 1 <= at <= len(code):
        broken(line, f"card {name!r} has line {typed!r}, and the code has lines 1 to {len(code)}")
    if not code[at - 1].strip():
        broken(line, f"card {name!r} has line {at}, which is empty")
    return {
        "bug_line": at,
        "answer": f"Line {at}: ``{_spaced(code[at - 1].strip())}``\n\n{answer}",
        "explanation": answer,
    }


def _spaced(code: str) -> str:
    """Code between two backticks: a space apart where it begins or ends with one (CommonMark 0.31, section 6.1)."""
    return f" {code} " if "`" in (code[0], code[-1]) else code
