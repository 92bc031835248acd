"""How pages look: on a phone, in a real browser, in the light and in the dark."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
from sample_pages import DEADLOCK, PASSED, ROOT, SOURCE, SVG, WRONG, lost, verdict

from grader.classroom.pages import feedback, overview
from grader.classroom.pages.overview import ClassResult, Row
from grader.trace import dark


def test_every_colour_of_the_pictures_has_one_for_dark_pages() -> None:
    for module in set((ROOT / "grader" / "trace").glob("*.py")) - {ROOT / "grader" / "trace" / "dark.py"}:
        for colour in re.findall(r'"(#[0-9a-fA-F]{6})"', module.read_text()):
            assert dark.follows(f'<g fill="{colour}"/>'), f"{colour} of {module.name}"
    assert not dark.follows('<g fill="#123456"/>')


def _contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.2, section 1.4.3."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_all_text_stands_out_from_what_it_stands_on(scheme: int) -> None:
    style = (ROOT / "grader" / "classroom" / "pages" / "style.css").read_text()
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", re.findall(r":root \{(.*?)\}", style, re.DOTALL)[scheme]))
    for words in ("ink", "soft", "link", "good", "bad", "mixed", "odd", "code-c", "code-s", "code-k"):
        for ground in ("page", "card", "sunk", "bad-wash", "seen-wash", "odd-wash"):
            assert _contrast(colours[words], colours[ground]) >= 4.5, f"{words} on {ground}"


@pytest.mark.heavy
def test_no_page_is_wider_than_a_phone(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine: pages are not looked at in a browser")
    long = replace(DEADLOCK, message=f"Rank 0 raised {'x' * 400} at `{'y' * 300}`.", got="z" * 500)
    wide = SVG.replace('width="90"', 'width="1200"')
    source = SOURCE.replace("right)", f"right)  # {'long ' * 60}")
    pages = {
        "feedback": feedback.page(
            verdict(lost("sum", long, output="o" * 3000, diagram=wide), lost("bytes", WRONG), PASSED),
            source,
            learner="n" * 90,
        ),
        "overview": overview.page(
            ClassResult(
                "06", "ring_all_reduce", (Row("m" * 80, 3, 20, (("sum", "crash", "s" * 300),)), Row("b", 20, 20)), 1, ""
            )
        ),
    }
    frames = "".join(
        f'<iframe data-name="{name} at {width}" srcdoc="{escape(text)}" style="width:{width}px;height:900px"></iframe>'
        for name, text in pages.items()
        for width in (375, 1280)
    )
    probe = (
        "addEventListener('load', () => { for (const frame of document.querySelectorAll('iframe')) {"
        "const root = frame.contentDocument.documentElement, told = document.createElement('p');"
        "told.textContent = `${frame.dataset.name}: ${root.scrollWidth - root.clientWidth} too wide`;"
        "document.body.append(told) } })"
    )
    around = tmp_path / "around.html"
    around.write_text(f"<!doctype html><meta charset=utf-8><body>{frames}<script>{probe}</script>", encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
               "--disable-background-networking", "--disable-component-update"]  # fmt: skip
    command = [browser, *options, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", around.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    told = re.findall(r"<p>(.*?)</p>", done.stdout.rpartition("</script>")[2])
    if not told:
        pytest.skip(f"{browser} does not start here: {done.stderr.strip().splitlines()[-1:]}")
    assert told == [f"{name} at {width}: 0 too wide" for name in pages for width in (375, 1280)]
