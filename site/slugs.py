"""How links name a heading."""

from __future__ import annotations


def as_jupyterlab(heading: str) -> str:
    """As JupyterLab 4 does: what the heading shows, with hyphens for blanks."""
    return heading.replace(" ", "-")
