"""What chapters show of a lab's last result."""

from __future__ import annotations

import json
from pathlib import Path

from courselib.lab import shown


def test_a_chapter_shows_date_versions_and_rows_or_how_to_get_them(tmp_path: Path) -> None:
    assert shown("sums", tmp_path).text == "No result of this lab is kept yet. `make labs LABS=sums` runs it."
    kept = {"date": "2026-11-27", "versions": {"X": "1.2"}, "outcome": "1 of 2*", "head": ["", "a|b", "c"],
            "rows": [["one", "[x]", ""], ["  two", "y_z", "<w"]]}  # fmt: skip
    (tmp_path / "sums.json").write_text(json.dumps(kept))
    assert shown("sums", tmp_path).text.splitlines() == [
        r"`make labs LABS=sums` on **2026-11-27**, with X 1.2: 1 of 2\*.",
        "",
        r"|  | a\|b | c |",
        "|---|---|---|",
        r"| one | \[x\] |  |",
        r"| – two | y\_z | \<w |",
    ]
