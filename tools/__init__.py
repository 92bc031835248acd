"""Programs that write parts of the course: `python -m tools.cardpictures`, `python -m tools.whiteboard`."""
