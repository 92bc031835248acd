"""The site: it builds without a warning, its links lead somewhere, and it needs no network."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent.parent
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "audio": "src"}
CHAPTER = ROOT / "course" / "06-collectives.ipynb"
pytestmark = pytest.mark.heavy
SHOWN = {"text/markdown": "| ranks |\n| --- |\n| 8 |", "text/html": '<div><svg id="drawn"></svg></div>',
         "application/vnd.rankup.checks+json": {"points": 3}}  # fmt: skip


@dataclass
class Page(HTMLParser):
    """One page's links, anchors, and what it loads."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = {name: value or "" for name, value in attrs}
        self.anchors.add(about.get("id", ""))
        self.classes.update(about.get("class", "").split())
        if tag == "a" and "href" in about:
            self.links.append(about["href"])
        if tag in LOADED and LOADED[tag] in about:
            self.loads.append(about[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("site")
    sys.path.append(str(ROOT / "site"))
    import executed

    shown = [[{"output_type": "display_data", "metadata": {}, "data": {kind: text}}] for kind, text in SHOWN.items()]
    executed.keep(CHAPTER, into / "executed", shown)
    command = [sys.executable, ROOT / "site" / "build.py", "--unexecuted", "--into", into]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return into / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    found = {}
    for path in {*site.rglob("*.html")} - {*site.rglob("_static/*")}:  # in there the theme has templates
        found[path] = Page()
        found[path].feed(path.read_text())
    return found


def test_every_chapter_exercise_and_deck_has_a_page(site: Path) -> None:
    sources = [*ROOT.glob("course/[0-9]*.ipynb"), *ROOT.glob("exercises/*/*.ipynb"), *ROOT.glob("course/cards/*.md"),
               *ROOT.glob("course/interview/**/*.md")]  # fmt: skip
    assert [path for path in sources if not (site / path.relative_to(ROOT)).with_suffix(".html").exists()] == []


def test_every_link_within_the_site_leads_somewhere(pages: dict[Path, Page]) -> None:
    broken = []
    for page, found in pages.items():
        for link in (*found.links, *found.loads):
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (page.parent / unquote(url.path)).resolve() if url.path else page
            known = pages[target].anchors if target in pages else {url.fragment}
            if not target.exists() or (url.fragment and unquote(url.fragment) not in known):
                broken.append((page.name, link))
    assert broken == []


def test_nothing_is_loaded_from_the_network(site: Path, pages: dict[Path, Page]) -> None:
    assert [load for page in pages.values() for load in page.loads if urlsplit(load).scheme not in ("", "data")] == []
    assert [path.name for path in site.rglob("*.css") if "url(http" in path.read_text().replace('"', "")] == []


def test_formulas_are_set_by_the_browser_itself(site: Path, pages: dict[Path, Page]) -> None:
    assert "<math" in (site / "course" / "11-fault-tolerance.html").read_text()
    assert not any("mathjax" in load.lower() for page in pages.values() for load in page.loads)


def test_search_and_the_dark_mode_switch_are_there(site: Path, pages: dict[Path, Page]) -> None:
    assert "deadlock" in (site / "searchindex.js").read_text()
    for page in pages.values():
        assert {"theme-switch-button", "search-button-field"} <= page.classes


def test_what_a_chapter_showed_is_on_its_page(site: Path) -> None:
    page = (site / "course" / "06-collectives.html").read_text()
    assert '<svg id="drawn">' in page
    assert "<th" in page.partition('"cell_output')[2].partition('id="drawn"')[0]


def test_code_that_a_chapter_folds_is_folded_on_its_page(site: Path, pages: dict[Path, Page]) -> None:
    assert "tag_hide-input" in pages[site / "course" / "02-cap.html"].classes


def test_no_solution_is_on_a_page(site: Path) -> None:
    for path in site.glob("exercises/*/*.html"):
        assert "BEGIN SOLUTION" not in path.read_text()
        assert "YOUR" in path.read_text()
