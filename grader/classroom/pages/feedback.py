"""One submission's feedback as a page of its own: no network, no script."""

from __future__ import annotations

from collections.abc import Container, Sequence

from grader.classroom.pages import figures, kinds, values
from grader.classroom.pages.figures import Figure
from grader.classroom.pages.findings import Finding, findings, lines_of, marks
from grader.classroom.pages.frame import bar, document
from grader.classroom.pages.listing import listing, open_lines
from grader.classroom.pages.reading import Reading, reading
from grader.classroom.pages.words import listed, name, number, safe, sentence
from grader.verdict import CheckResult, Verdict

_MOST_OUTPUT = 4000
_SIGN = {"pass": "✓", "fail": "✗", "error": "!", "skipped": "–"}
_WORD = {"pass": "passed", "fail": "points lost", "error": "could not be graded", "skipped": "not judged"}


def page(verdict: Verdict, source: str, *, learner: str = "", when: str = "", note: str = "") -> str:
    """The whole verdict as a self-contained page; `source` is the learner's text that was graded.

    `learner` and `when` are shown as they are, `note` is a sentence from whoever grades. Every text is escaped.
    """
    found = findings(verdict.checks)
    pictures = [figures.figure(finding.first.diagram) for finding in found]
    lines = lines_of(source)
    title, functions = _exercise(verdict.exercise)
    marked = marks(found, lines, pictures, functions)
    linked = open_lines(len(lines), {mark.line for mark in marked})
    passed = [check for check in verdict.checks if check.status == "pass"]
    parts = [_head(verdict, title, learner, when, note), _checks(verdict, found)]
    if found:
        heading = "One thing to mend" if len(found) == 1 else f"{len(found)} things to mend"
        parts.append(f'<section aria-labelledby="mend"><h2 id="mend">{heading}</h2>')
        for finding, picture in zip(found, pictures, strict=True):
            at_lines = [mark.line for mark in marked if finding.number in mark.findings]
            parts.append(_finding(verdict, finding, picture, at_lines, linked))
        parts.append("</section>")
    if lines and marked:
        parts.append(f'<section aria-labelledby="code"><h2 id="code">Your code</h2>{listing(lines, marked)}</section>')
    parts.append(_passed(passed, len(found)))
    if lines and not marked:
        folded = f"<details><summary>Your code</summary>{listing(lines, ())}</details>"
        parts.append(f'<section class="quiet">{folded}</section>')
    parts.append(_foot(verdict))
    heading = f"{title}: {number(verdict.points)} of {number(verdict.max_points)} points"
    return document(heading, "\n".join(part for part in parts if part))


def _exercise(asked: str) -> tuple[str, Sequence[str]]:
    """The exercise's title and the names of its functions, as far as it is known here."""
    from grader.registry import find
    from grader.submission import BadRequest

    try:
        found = find(asked)
    except BadRequest:
        return asked, ()
    return found.title, found.function_names


def _head(verdict: Verdict, title: str, learner: str, when: str, note: str) -> str:
    facts = [f"<code>{safe(verdict.exercise)}</code>"]
    facts += [f'<span class="who">{name(learner)}</span>'] if learner else []
    facts += [safe(when)] if when else []
    said = f'<p class="remark">{sentence(note)}</p>' if note else ""
    share = verdict.points / verdict.max_points if verdict.max_points else 0.0
    tone = "good" if verdict.passed else "mixed" if verdict.points else "bad"
    return (
        f'<header><div><h1>{safe(title)}</h1><p class="facts">{" · ".join(facts)}</p></div>'
        f'<p class="score {tone}"><b>{number(verdict.points)}</b> <span>of {number(verdict.max_points)} points</span>'
        f"{bar(share, tone)}</p></header>{said}"
    )


def _checks(verdict: Verdict, found: Sequence[Finding]) -> str:
    """A row for each check: its points, and where it is told of."""
    belongs = {check.name: finding.number for finding in found for check in finding.checks}
    most = max((check.max_points for check in verdict.checks), default=1.0) or 1.0
    rows = []
    for check in verdict.checks:
        share = check.points / check.max_points if check.max_points else 0.0
        tone = "good" if check.status == "pass" else "bad" if check.status == "fail" else "odd"
        where = belongs.get(check.name)
        title, wide = safe(check.title), 100 * check.max_points / most
        told = f'<a href="#f{where}">{title}</a>' if where else title
        rows.append(
            f'<li class="{tone}"><span class="sign" role="img" aria-label="{_WORD[check.status]}">'
            f'{_SIGN[check.status]}</span><span class="what">{told}</span>'
            f'<span class="track"><span style="width:{wide:.4g}%">{bar(share, tone)}</span></span>'
            f'<span class="n">{number(check.points)}<i>/{number(check.max_points)}</i></span></li>'
        )
    return f'<ol class="checks" aria-label="Checks">{"".join(rows)}</ol>'


def _finding(
    verdict: Verdict, finding: Finding, picture: Figure | None, lines: Sequence[int], linked: Container[int]
) -> str:
    found, check = finding.diagnosis, finding.first
    title, meaning = kinds.title(found.kind), kinds.meaning(found.kind)
    if check.status == "error":
        title, meaning = "Not graded", "The grading itself failed. It says nothing about your code."
    tone = "bad" if check.status == "fail" else "odd"
    parts = [
        f'<article class="finding {tone}" id="f{finding.number}">',
        f'<h3><span class="badge">{finding.number}</span> {safe(title)} '
        f'<span class="cost">{_cost(finding)}</span></h3>',
        f'<p class="says">{sentence(found.message, linked)}</p>',
    ]
    if meaning:
        parts.append(f'<p class="meaning"><code>{safe(found.kind)}</code> {safe(meaning)}</p>')
    parts.append(_others(finding, linked))
    parts.append(values.compared(found))
    if lines:
        links = [f'<a href="#L{line}">{line}</a>' for line in dict.fromkeys(lines)]
        parts.append(f'<p class="where">Marked in your code: line{"s" * (len(links) > 1)} {listed(links[:12])}</p>')
    if picture:
        parts.append(f"<figure>{picture.html(finding.number)}<figcaption>The very run that cost the points"
                     f"{_of_check(finding)}.</figcaption></figure>")  # fmt: skip
    if check.output:
        parts.append(f"<details><summary>What your ranks printed</summary>{_output(check.output)}</details>")
    if check.status == "fail" and found.kind != "syntax_error":  # else there is nothing to learn about the exercise
        parts.append(_read(reading(verdict.exercise, check.name, found.kind)))
    parts.append("</article>")
    return "\n".join(part for part in parts if part)


def _cost(finding: Finding) -> str:
    names = listed([f"<code>{safe(check.name)}</code>" for check in finding.checks[:8]])
    points = f"−{number(finding.lost)} point{'' if finding.lost == 1 else 's'}" if finding.lost else "no points lost"
    return f"{points} in {names}" + (f" and {len(finding.checks) - 8} more" if len(finding.checks) > 8 else "")


def _of_check(finding: Finding) -> str:
    return f" of <code>{safe(finding.first.name)}</code>" if len(finding.checks) > 1 else ""


def _others(finding: Finding, linked: Container[int]) -> str:
    """The other checks that lost points by this; where their sentences differ in numbers, these too."""
    others = finding.checks[1:]
    if not others:
        return ""
    names = listed([f"<code>{safe(check.name)}</code>" for check in others])
    said = [(check, check.diagnosis.message) for check in others if check.diagnosis]
    told = [(check, text) for check, text in said if text != finding.diagnosis.message]
    head = f"The same in check{'s' * (len(others) > 1)} {names}"
    if not told:
        return f'<p class="same">{head}.</p>'
    items = "".join(f"<li><code>{safe(check.name)}</code> {sentence(text, linked)}</li>" for check, text in told)
    return f'<details class="same"><summary>{head}</summary><ul>{items}</ul></details>'


def _read(found: Reading | None) -> str:
    if found is None:
        return ""
    section = f", section <b>{safe(found.section)}</b>" if found.section else ""
    return (
        f'<p class="read"><span aria-hidden="true">→</span> To read: chapter {safe(found.chapter)}, '
        f"<i>{safe(found.title)}</i>{section}. <code>rankup lab {safe(found.chapter)}</code></p>"
    )


def _passed(passed: Sequence[CheckResult], figures_before: int) -> str:
    """The checks that passed, their runs folded; nothing where there is no run to show."""
    rows, drawn = [], False
    for at, check in enumerate(passed, figures_before + 1):
        picture = figures.figure(check.diagram)
        head = f'<span class="sign good">✓</span> {safe(check.title)} <span class="n">{number(check.points)}</span>'
        if picture:
            drawn = True
            head = f"<details><summary>{head}</summary><figure>{picture.html(at)}</figure></details>"
        rows.append(f"<li>{head}</li>")
    if not drawn:
        return ""
    items = "".join(rows)
    return (
        f'<section aria-labelledby="right"><h2 id="right">What is right</h2><ul class="passed">{items}</ul></section>'
    )


def _output(text: str) -> str:
    """What was printed; of much the beginning and the end."""
    if len(text) > _MOST_OUTPUT:
        left_out = len(text) - _MOST_OUTPUT
        text = f"{text[: _MOST_OUTPUT - 1000]}\n… {left_out:,} characters left out …\n{text[-1000:]}"
    return f'<pre tabindex="0">{safe(text, _MOST_OUTPUT + 100)}</pre>'


def _foot(verdict: Verdict) -> str:
    engines = safe(" and ".join(verdict.engines) or "no engine")
    again = f"rankup grade {verdict.exercise} FILE --seed {verdict.seed}"
    return (
        f"<footer>Graded in {verdict.seconds:.1f} s on {engines}. The inputs were drawn from seed {verdict.seed}: "
        f"<code>{safe(again)}</code> draws them again.</footer>"
    )
