"""An interview's report as one HTML file that needs nothing else: light and dark, readable without colours."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from grader.quiz.interview import report
from grader.quiz.interview.summary import Advice, Score, Summary
from grader.quiz.interview.task import PASSED, Done, Interview

_STYLE = Path(__file__).with_name("page.css")
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def html(interview: Interview, summary: Summary, folder: Path) -> str:
    """The page; links are relative to `folder`."""
    total = summary.total
    title = f"Mock interview, {interview.level}"
    head = (
        f'<div><h1>{title}</h1><p class="facts">{escape(report.when(interview))}. '
        f"{escape(report.facts(interview, summary))}</p></div>"
        f'<p class="score {_kind(total)}"><b>{total.share:.0%}</b><span>{report.points(total)} points.'
        f"{escape(report.compared(total))}</span>{_bar(total)}</p>"
    )
    advice = "".join(_advice(each, folder) for each in summary.advice)
    if not advice:
        calm = "Nothing fell below 60 %. Ask for a longer interview, or the next level."
        advice = f"<p>{calm if total.most else 'Nothing was rated in this interview.'}</p>"
    before = any(score.before is not None for score in summary.areas)
    note = '<p class="facts">The mark on a bar is what former interviews came to.</p>' if before else ""
    parts = [
        f"<header>{head}</header>",
        f"<section><h2>By area</h2>{_scores('Area', summary.areas)}{note}</section>" if summary.areas else "",
        f'<section><h2>What to do next</h2><ul class="advice">{advice}</ul></section>'
        if summary.advice
        else f"<section><h2>What to do next</h2>{advice}</section>",
        f"<section><h2>By topic</h2>{_scores('Topic', summary.topics)}</section>" if summary.topics else "",
        f"<section><h2>Question by question</h2>{_questions(interview)}</section>" if interview.done else "",
        _former(summary, total),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}, {escape(report.when(interview))}</title>\n<style>\n{_STYLE.read_text()}</style>\n</head>\n"
        f"<body>\n<main>\n{''.join(parts)}\n</main>\n</body>\n</html>\n"
    )


def _kind(score: Score) -> str:
    return "good" if score.share >= PASSED else "bad"


def _bar(score: Score) -> str:
    """A bar for those who see; the number stands beside it in words."""
    former = "" if score.before is None else f'<i style="left:{100 * score.before:.0f}%"></i>'
    return f'<span class="bar" aria-hidden="true"><span style="width:{100 * score.share:.0f}%"></span>{former}</span>'


def _scores(name: str, scores: Sequence[Score]) -> str:
    rows = "".join(
        f'<tr class="{_kind(each)}"><th scope="row">{escape(each.name)}</th><td class="wide">{_bar(each)}</td>'
        f'<td class="n">{report.points(each)}</td><td class="n"><b>{each.share:.0%}</b></td>'
        f'<td class="n">{"&ndash;" if each.before is None else f"{each.before:.0%}"}</td></tr>'
        for each in scores
    )
    return (
        f'<div class="scroll"><table class="scores"><thead><tr><th scope="col">{name}</th>'
        '<td></td><th scope="col" class="n">Points</th><th scope="col" class="n">Share</th>'
        f'<th scope="col" class="n">Before</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _advice(advice: Advice, folder: Path) -> str:
    lines = []
    if reading := advice.reading:
        title = f"chapter {reading.chapter}, {reading.section or reading.title}"
        lines.append(f"Read {_link(title, reading.link, folder)} <code>rankup lab {escape(reading.chapter)}</code>")
    if exercise := advice.exercise:
        lines.append(
            f"Practise {_link(exercise.name, exercise.link, folder)} <code>rankup start {escape(exercise.name)}</code>"
        )
    if advice.cards:
        lines.append(_inline(report.cards_due(advice)))
    items = "".join(f"<li>{line}</li>" for line in lines)
    return (
        f"<li><h3>{escape(advice.topic)} <small>{report.points(advice.score)} points</small></h3><ul>{items}</ul></li>"
    )


def _link(text: str, link: str, folder: Path) -> str:
    if not link:
        return escape(text)
    return f'<a href="{escape(report.relative(link, folder).replace(" ", "%20"))}">{escape(text)}</a>'


def _questions(interview: Interview) -> str:
    return "".join(_question(at, done) for at, done in enumerate(interview.done, start=1))


def _question(at: int, done: Done) -> str:
    kind = "odd" if done.rating != "rated" else "bad" if done.failed else "good"
    parts = [f'<div class="prompt">{_MARKDOWN.render(done.prompt)}</div>']
    if done.guesses:
        rows = "".join(
            f'<tr class="{"good" if each.earned else "bad"}"><td>{_MARKDOWN.render(each.question)}</td>'
            f"<td>{escape(', then '.join(each.typed) or 'nothing')}</td><td>{escape(each.right)}</td>"
            f'<td class="n">{each.earned:g}</td></tr>'
            for each in done.guesses
        )
        parts.append(
            '<div class="scroll"><table><thead><tr><th scope="col">Number</th><th scope="col">You said</th>'
            f'<th scope="col">It is</th><th scope="col" class="n">Points</th></tr></thead><tbody>{rows}</tbody>'
            "</table></div>"
        )
    if done.written:
        parts.append(f'<h4>Your answer</h4><div class="written">{escape(done.written)}</div>')
    if done.rating != "unrated":
        points = "".join(
            f'<li class="{"had" if had else "missed"}"><span class="sign">{"had" if had else "missed"}</span> '
            f"<span>{_inline(point)}</span></li>"
            for point, had in done.ticked
        )
        parts.append(f'<h4>What an interviewer listens for</h4><ul class="points">{points}</ul>')
    reached = "".join(
        f'<li class="{"had" if mark >= 0.5 else "missed"}"><span class="sign">{report.rating(mark)}</span> '
        f"<span>{_inline(question)}</span></li>"
        for question, mark in done.follow_ups
        if mark is not None
    )
    if reached:
        parts.append(f'<h4>Follow-ups</h4><ul class="points">{reached}</ul>')
    opened = " open" if done.failed else ""
    return (
        f'<details class="{kind}"{opened}><summary><span class="at">{at}</span><span class="what">'
        f"{escape(report.heading(done))} <small>{escape(done.level)}</small></span>"
        f'<span class="came">{escape(report.verdict(done))}<br><small>{escape(report.timing(done))}</small></span>'
        f'</summary><div class="inside">{"".join(parts)}</div></details>'
    )


def _inline(text: str) -> str:
    return str(_MARKDOWN.renderInline(text))


def _former(summary: Summary, total: Score) -> str:
    if not summary.former:
        return ""
    rows = "".join(
        f'<tr class="{_kind(score)}"><th scope="row">{escape(at[:10])}</th><td>{escape(level)}</td>'
        f'<td class="wide">{_bar(score)}</td><td class="n">{report.points(score)}</td>'
        f'<td class="n"><b>{score.share:.0%}</b></td></tr>'
        for at, level, score in summary.former
    )
    today = (
        f'<tr class="{_kind(total)}"><th scope="row">this one</th><td></td><td class="wide">{_bar(total)}</td>'
        f'<td class="n">{report.points(total)}</td><td class="n"><b>{total.share:.0%}</b></td></tr>'
    )
    return (
        '<section><h2>Former interviews</h2><div class="scroll"><table class="scores"><thead><tr>'
        '<th scope="col">Day</th><th scope="col">Level</th><td></td><th scope="col" class="n">Points</th>'
        f'<th scope="col" class="n">Share</th></tr></thead><tbody>{rows}{today}</tbody></table></div></section>'
    )
