"""The strict parser of a deck's file, which is Markdown:

    ---
    deck: "06"
    title: Collectives and all-reduce
    ---

    ## ring-bytes
    level: senior
    topic: ring-all-reduce
    kind: qa

    How many bytes does each rank send?

    ---

    2(N-1)/N x S

Any card may name the interview question it belongs to (`question: q-ring`). With `predict: true` a choice with one
right option, or a number, is what its chapter asks before a cell is run. What else a kind needs is said below, by the
model of its keys.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from grader.quiz.deck import TOLERANCE, Card, Deck, Number, Option
from grader.quiz.markdown import ID, BrokenError, Id, Item, Keys, Part, Written, broken, every, fitting, opened, told

FEWEST = 3  # options of a choice, steps of an order

_HIDDEN = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_OPTION = re.compile(r"[-*] \[([ xX])\](.*)")
_STEP = re.compile(r"(\d{1,9})\.(?:[ \t]+(.*))?")

Made = dict[str, Any]  # the fields of a Card


class _Front(Keys):
    deck: Id
    title: str


class _Card(Keys):
    """What every card has. `made` says what its two sides become; an answer may be missing for a cloze alone."""

    level: Literal["mid", "senior", "principal"]
    topic: str
    kind: Literal["qa", "cloze", "number", "choice", "order", "bug", "diagram"]
    question: str | None = None
    predict: bool = False

    def made(self, question: Part, answer: Part) -> Made:
        return {"question": question.text, "answer": answer.text}


class _Unknown(_Card, extra="ignore"):
    """A card of no kind: what else is there says nothing."""


class _Cloze(_Card):
    """Hides the {{parts in braces}} of its question, and needs no answer of its own."""

    def made(self, question: Part, answer: Part) -> Made:
        text, explanation = question.text, answer.text
        hidden = _HIDDEN.findall(text)
        if not hidden or not all(part.strip() for part in hidden):
            broken(question.line, f"card {question.name!r} is a cloze, but hides nothing: write {{{{like this}}}}")
        filled = _HIDDEN.sub(_filled, text)
        shown, whole = _HIDDEN.sub("[...]", text), f"{filled}\n\n{explanation}".strip()
        return {"question": shown, "answer": whole, "cloze": text, "explanation": explanation}


def _filled(found: re.Match[str]) -> str:
    """What was hidden, bold where Markdown would read it so."""
    part, (start, end), text = found[1].strip(), found.span(), found.string
    inside = text[:start].count("`") % 2 or "*" in part
    touches = (text[start - 1 : start] + text[end : end + 1]).replace(" ", "")
    return part if inside or any(each.isalnum() or each in "*_{}" for each in touches) else f"**{part}**"


class _Number(_Card):
    """`formula` gives the answer: arithmetic, which the linter computes. `tolerance` is relative."""

    answer: Written
    unit: str
    formula: str
    tolerance: Annotated[float, Field(ge=0, lt=1)] = TOLERANCE

    def made(self, question: Part, answer: Part) -> Made:
        number = Number(float(self.answer), self.unit, self.tolerance, self.formula, self.answer)
        return super().made(question, answer) | {"number": number}


class _Choice(_Card):
    """Its question ends with a list of `- [ ] wrong` and `- [x] right` options; why one is wrong stands below it."""

    def made(self, question: Part, answer: Part) -> Made:
        name, line = question.name, question.line
        lists = [at for _, at, _ in question.found("bullet_list_open") if _OPTION.fullmatch(question.lines[at])]
        if not lists:
            broken(line, f"card {name!r} has no options: end the question with lines `- [ ] wrong` and `- [x] right`")
        stem, explanation = question.until(lists[0]).text, answer.text
        if not stem:
            broken(line, f"card {name!r} has an empty question")
        options: list[Option] = []
        for item in question.since(lists[0]).items(_OPTION):
            options.append(_option(item, name))
            if options[-1].text in [option.text for option in options[:-1]]:
                broken(item.line, f"card {name!r} has the option {options[-1].text!r} twice")
        if len(options) < FEWEST:
            broken(line, f"card {name!r} has {len(options)} options; a choice needs at least {FEWEST}")
        for right, word in ((True, "right"), (False, "wrong")):
            if not any(option.right is right for option in options):
                broken(line, f"card {name!r} has no {word} option")
        whole = f"{_told(options)}\n\n{explanation}"
        return {"question": stem, "answer": whole, "options": tuple(options), "explanation": explanation}


def _option(item: Item, name: str) -> Option:
    text, right = item.match[2].strip(), item.match[1] != " "
    why = "\n".join(line if line.strip() else "" for line in item.below).strip("\n")
    if not text:
        broken(item.line, f"card {name!r} has an empty option")
    if not right and not why:
        broken(item.line, f"card {name!r} does not say why {text!r} is wrong: write it indented below the option")
    return Option(text, right, why)


def _told(options: list[Option]) -> str:
    """The options once more, those that are right first, and why."""
    items = []
    for option in sorted(options, key=lambda option: not option.right):
        why = "".join(f"\n  {line}" if line else "\n" for line in option.why.split("\n")) if option.why else ""
        items.append(f"- **{'Right' if option.right else 'Wrong'}:** {option.text}{'  ' if why else ''}{why}")
    return "\n".join(items)


class _Order(_Card):
    """Its answer begins with the steps in the right order, numbered from 1."""

    def made(self, question: Part, answer: Part) -> Made:
        name = question.name
        listed = [end for _, at, end in answer.found("ordered_list_open") if not answer.until(at).text][:1]
        steps = answer.until(listed[0]).items(_STEP) if listed else []
        for at, item in enumerate(steps, start=1):
            if int(item.match[1]) != at:
                broken(item.line, f"card {name!r}: expected step {at}, not {item.match[1]}")
            if not (item.match[2] or "").strip():
                broken(item.line, f"card {name!r} has an empty step")
        if len(steps) < FEWEST:
            few = f"begin its answer with a numbered list of at least {FEWEST} steps"
            broken(question.line, f"card {name!r} has {len(steps)} steps; {few}")
        texts = tuple(item.text for item in steps)
        if len(set(texts)) < len(texts):
            broken(question.line, f"card {name!r} has the same step twice")
        return super().made(question, answer) | {"steps": texts}


class _Bug(_Card):
    """Has one fenced block of code in its question, and names the `line` of it that is at fault, from 1."""

    line: int

    def made(self, question: Part, answer: Part) -> Made:
        name, line, at = question.name, question.line, self.line
        found = question.found("fence")
        if len(found) != 1:
            broken(line, f"card {name!r} has {len(found)} fenced blocks of code in its question; write exactly one")
        _, first, last = found[0]
        code = [text.strip() for text in question.lines[first + 1 : last - 1]]
        if not 1 <= at <= len(code):
            broken(line, f"card {name!r} names line {at}, but the code has lines 1 to {len(code)}")
        if not code[at - 1]:
            broken(line, f"card {name!r} names line {at}, which is empty")
        spaced = f" {code[at - 1]} " if "`" in (code[at - 1][0], code[at - 1][-1]) else code[at - 1]
        whole = f"Line {at}: ``{spaced}``\n\n{answer.text}"
        return {"question": question.text, "answer": whole, "bug_line": at, "explanation": answer.text}


class _Diagram(_Card):
    """Names an SVG relative to the deck's folder, and `alt`: what is drawn, without the answer."""

    picture: Annotated[str, fitting(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*\.svg", "a path like pictures/x.svg")]
    alt: str

    def made(self, question: Part, answer: Part) -> Made:
        return super().made(question, answer) | {"picture": self.picture, "alt": self.alt}


_KINDS: dict[str, type[_Card]] = {
    "qa": _Card, "cloze": _Cloze, "number": _Number, "choice": _Choice, "order": _Order, "bug": _Bug,
    "diagram": _Diagram,
}  # fmt: skip


def parse(text: str, file: str) -> Deck:
    """Read a deck; `file` is what errors call it. Raises DeckError, with all that is wrong."""
    with told(file):
        about, body = opened(text, _Front)
        blocks = body.sections(2, "expected a card, `## ID`")
    lines: dict[str, int] = {}

    def card(block: Part) -> Card:
        first = lines.setdefault(block.name, block.line)
        if first != block.line:
            raise BrokenError(block.line, f"card {block.name!r} is also at line {first}; an id is for one card")
        return replace(_card(block, about.deck), file=file)

    return Deck(about.deck, about.title, tuple(every(card, blocks, file)), file)


def _card(block: Part, deck: str) -> Card:
    name, line = block.name, block.line
    if not re.fullmatch(ID, name):
        broken(line, f"{name!r} is not an id for a card: use lowercase letters, digits and single hyphens")
    keys, body = block.keys(lambda values: _KINDS.get(values.get("kind", ""), _Unknown), f"card {name!r}")
    rules = body.rules()
    if len(rules) > 1:
        broken(rules[1] + 1, f"card {name!r} has a second line `---`; write `***` for a rule")
    if keys.kind != "cloze" and not rules:
        broken(line, f"card {name!r} has no line `---` between question and answer")
    middle = rules[0] if rules else body.end
    question, answer = body.until(middle), body.since(middle + 1)
    if not question.text:
        broken(line, f"card {name!r} has an empty question")
    if rules and not answer.text:
        broken(line, f"card {name!r} has an empty answer")
    made = keys.made(question, answer)
    if keys.predict and (keys.kind != "number" and sum(each.right for each in made.get("options", ())) != 1):
        broken(line, f"card {name!r} cannot be predicted: that takes a number, or a choice with one right option")
    return Card(
        name, deck, keys.level, keys.topic, keys.kind, asks=keys.question, line=line, predict=keys.predict, **made
    )
