"""The pictures of the cards that ask to read a diagram."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

LARGEST = 40_000  # bytes
_SVG = "{http://www.w3.org/2000/svg}svg"


def fault(path: Path) -> str | None:
    """What is wrong with a picture; None if it is an SVG that can be drawn by itself."""
    try:
        data = path.read_bytes()
        root = ElementTree.fromstring(data)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        return f"is not XML: {error}"
    if root.tag != _SVG:
        return f"is not an SVG: its root is {root.tag!r}"
    if "viewBox" not in root.attrib and not {"width", "height"} <= root.attrib.keys():
        return "has neither a viewBox nor a width and a height"
    if len(data) > LARGEST:
        return f"has {len(data):,} bytes; at most {LARGEST:,} are allowed"
    return None
