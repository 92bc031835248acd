"""What points were lost for: each mistake told once, and the lines of the learner's source that it is about."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from grader.classroom.pages.figures import Figure
from grader.verdict import CheckResult, Diagnosis

_UNTOLD = Diagnosis("crash", "No reason was recorded.")
_NOT_JUDGED = re.compile(r"^Not judged, because [^.]*\. ")
_CASE = re.compile(r"^With .*?: (?:on rank \d+, )?")
_CASE_NAMED = re.compile(r"^With (.{1,80}?): ")
_SHARE = re.compile(r"^(?:\d+ of \d+ elements are|every element is|its only element is) wrong: ")
_FACT = re.compile(r"^element [^.]*\. (?=[A-Z])")  # what the first wrong element holds, where the cause is told next
_SHAPE = re.compile(r"\(#(?:, #)*,?\)")
_RANKS = re.compile(r"\branks? #(?:, #)*(?: (?:and|or) #)?")
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")
_QUOTE = re.compile(r" ?\(line (\d{1,7}): `([^`]*)`\)")
_CALL = re.compile(r" The call was `[^`]*`(?:, (?:after|which returned|instead of) `[^`]*`)*\.")
_FILE = re.compile(r"^\S+\.(?:py|ipynb)\b")
_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z])")
_COUNTED = ("too_many_bytes", "too_few_bytes", "too_many_messages")
_MOST_WORDS = 260


@dataclass(frozen=True)
class Finding:
    """One mistake: the first check that it cost points, and the others that it did."""

    number: int
    checks: tuple[CheckResult, ...]

    @property
    def first(self) -> CheckResult:
        return self.checks[0]

    @property
    def diagnosis(self) -> Diagnosis:
        return self.first.diagnosis or _UNTOLD

    @property
    def lost(self) -> float:
        return sum(check.max_points - check.points for check in self.checks)


@dataclass(frozen=True)
class Mark:
    """A line of the source (1-based) and what findings, by their numbers, say of it.

    `tone` is "blame" where the diagnosis names the line, "also" where it mentions it, "seen" where the line only took
    part in the run that the finding is about.
    """

    line: int
    findings: tuple[int, ...]
    words: str
    tone: str


def gist(message: str) -> str:
    """What a message says apart from its case, numbers, calls and the lines it quotes: equal for the same mistake
    in another run, on another number of ranks, and of another learner."""
    text = _CALL.sub("", message[:3000])
    for prefix in (_NOT_JUDGED, _CASE, _SHARE, _FACT):
        text = prefix.sub("", text, count=1)
    text = _RANKS.sub("rank #", _SHAPE.sub("(#)", _NUMBER.sub("#", _QUOTE.sub("", text))))
    clauses = re.split(r"(?<=[,.;:]) ", text)
    return " ".join(dict.fromkeys(clause.rstrip(",.;") for clause in clauses))


def about(found: Diagnosis) -> tuple[str, object]:
    """What a diagnosis is about: equal for the same mistake in another check."""
    return found.kind, found.line if found.line is not None else gist(found.message)


def case(message: str) -> str:
    """The case that a message names: "3 ranks, 9 int64"; empty for none."""
    found = _CASE_NAMED.match(_NOT_JUDGED.sub("", message, count=1))
    return found[1] if found else ""


def not_judged(message: str) -> str:
    """ "Not judged, because the sum is wrong", if the message says so; else nothing."""
    found = _NOT_JUDGED.match(message)
    return found[0].rstrip(". ") if found else ""


def findings(checks: Sequence[CheckResult]) -> list[Finding]:
    """The checks that lost points, those that lost them by the same mistake together, numbered from 1."""
    together: dict[tuple[str, object], list[CheckResult]] = {}
    for check in checks:
        if check.status == "pass":
            continue
        together.setdefault(about(check.diagnosis or _UNTOLD), []).append(check)
    return [Finding(number, tuple(alike)) for number, alike in enumerate(together.values(), 1)]


def to_fix(found: Sequence[Finding]) -> list[Finding]:
    """Those that are things to fix: not checks that could not be judged because of another mistake, if there is one."""
    return [each for each in found if not not_judged(each.diagnosis.message)] or list(found)


def lines_of(source: str) -> list[str]:
    """The lines as Python counts them: a form feed or a U+2028 within one does not end it."""
    return re.split(r"\r\n|\r|\n", source.removesuffix("\n")) if source else []


def marks(
    found: Sequence[Finding], lines: Sequence[str], figures: Sequence[Figure | None], functions: Sequence[str]
) -> list[Mark]:
    """Which lines the findings are about. `figures` are the findings' diagrams, `functions` what the exercise asks for.

    Where a diagnosis names no line, the lines that sent and received in its run are marked, with what they did; where
    there was nothing of that kind, the function's first line.
    """
    where = _definitions(lines, functions)
    told: list[Mark] = []
    seen: dict[int, list[Mark]] = {}
    for finding, figure in zip(found, figures, strict=True):
        own = list(_named(finding, lines))
        told += own
        if own or finding.first.status != "fail":
            continue
        talk = figure.talk() if figure else {}
        for line, did in talk.items():
            if 0 < line <= len(lines):
                seen.setdefault(line, []).append(Mark(line, (finding.number,), did.words, "seen"))
        if not talk:
            told += _function(finding, where, len(functions) == 1)
    counted = {finding.number for finding in found if finding.diagnosis.kind in _COUNTED}
    told += [_together(several, counted) for several in seen.values()]
    return sorted(told, key=lambda mark: (mark.line, mark.tone == "seen", mark.findings))


def _together(seen: Sequence[Mark], counted: Container[int]) -> Mark:
    """One mark for what several runs say of a line: their words are much alike. Where bytes or messages are the matter,
    it is that run's words."""
    chosen = min(seen, key=lambda mark: (mark.findings[0] not in counted, mark.findings))
    numbers = tuple(mark.findings[0] for mark in seen)
    run = f" in the run of {chosen.findings[0]}" if len(seen) > 1 else " in this run"
    return Mark(chosen.line, numbers, chosen.words + run, "seen")


def _named(finding: Finding, lines: Sequence[str]) -> Iterator[Mark]:
    """The lines that the finding's diagnosis names."""
    found = finding.diagnosis
    own = found.line if found.line and 0 < found.line <= len(lines) else None
    if own:
        yield Mark(own, (finding.number,), brief(found.message, own), "blame")
    done = {own}
    since = 0
    for quote in _QUOTE.finditer(found.message):
        line, code = int(quote[1]), quote[2]
        before = found.message[since : quote.start()]
        since = quote.end()
        if line not in done and 0 < line <= len(lines) and lines[line - 1].strip().startswith(code[:57]):
            done.add(line)
            clause = re.split(r"[.,;:] ", before)[-1].strip(" .)")
            yield Mark(line, (finding.number,), re.sub(r"^(?:that|but|and) ", "", clause), "also")


def _function(finding: Finding, where: dict[str, int], only: bool) -> Iterator[Mark]:
    """The first line of the function that the finding is about: one it names, or the `only` one of the exercise."""
    message = _FILE.sub("", finding.diagnosis.message)
    named = [name for name in where if re.search(rf"\b{re.escape(name)}\b", message)]
    for name in named[:1] or list(where)[: int(only)]:
        yield Mark(where[name], (finding.number,), brief(finding.diagnosis.message), "also")


def brief(message: str, line: int | None = None) -> str:
    """The first sentence of a message, for beside the line that it is about, which it then need not quote."""
    text = _QUOTE.sub(lambda quote: "" if int(quote[1]) == line else quote[0], message)
    text = _NOT_JUDGED.sub("", text)
    first = _SENTENCE.split(text, maxsplit=1)[0]
    return first if len(first) <= _MOST_WORDS else f"{first[:_MOST_WORDS].rsplit(' ', 1)[0]} …"


def _definitions(lines: Sequence[str], functions: Sequence[str]) -> dict[str, int]:
    """Where each of `functions` is defined."""
    text = "\n".join(lines)
    if len(text) > 200_000:
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in the learner's text is none of ours
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found = {node.name: node.lineno for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return {name: found[name] for name in functions if name in found}
