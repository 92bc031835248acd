"""`make site`: the executed chapters, the exercises, the cards and the interview as a static site.

    python site/build.py [--into build/site] [--unexecuted]

Exit status: 0 built without a warning; 1 a chapter failed, or Sphinx had something to say; 2 Sphinx is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(ROOT / "course" / "lib")]  # a checkout is enough: nothing need be installed


def main() -> int:
    reader = argparse.ArgumentParser(description="Build the site.")
    reader.add_argument("--into", type=Path, default=ROOT / "build" / "site", help="the folder to build in")
    reader.add_argument("--unexecuted", action="store_true", help="run no chapter: show the outputs that are kept")
    asked = reader.parse_args()
    if missing := [name for name in ("sphinx", "myst_nb", "sphinx_book_theme") if not importlib.util.find_spec(name)]:
        print(f"{missing[0]} is not installed: pip install 'rankup[site]'", file=sys.stderr)
        return 2
    import executed
    import pages

    begun = time.monotonic()
    into = asked.into.resolve()
    if not asked.unexecuted:
        try:
            executed.run(pages.chapters(), into / "executed")
        except executed.ChapterError as error:
            print(f"site: {error}", file=sys.stderr)
            return 1
        except (KeyboardInterrupt, asyncio.CancelledError):
            print("site: stopped; the chapters that were run are kept", file=sys.stderr)
            return 130
    print("Gathering the pages", flush=True)
    gathered = pages.gather(into / "executed")
    if _write(gathered, into / "source"):
        shutil.rmtree(into / "html", ignore_errors=True)  # Sphinx never removes a page whose source is gone
        shutil.rmtree(into / "doctrees", ignore_errors=True)
    print(f"Building {sum(path.endswith(('.md', '.ipynb')) for path in gathered)} pages", flush=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", HERE]
    done = subprocess.run([*command, "-d", into / "doctrees", into / "source", into / "html"], check=False)
    if done.returncode:
        print("site: Sphinx had something to say, above; the site is not finished", file=sys.stderr)
        return 1
    print(f"The site is there after {time.monotonic() - begun:.0f} s: {into / 'html' / 'index.html'}")
    return 0


def _write(pages: dict[str, str | bytes], source: Path) -> bool:
    """Write what has changed, and remove what is no page any more; whether anything was removed."""
    for name, content in pages.items():
        data = content.encode() if isinstance(content, str) else content
        path = source / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    stale = [path for path in source.rglob("*") if path.is_file() and path.relative_to(source).as_posix() not in pages]
    for path in stale:
        path.unlink()
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
