"""An app that can be left at any moment."""

from __future__ import annotations

from textual.app import App


class LeavableApp(App[None]):
    """Textual takes a screen's parts away on leaving, also from a screen that is still setting them up.

    What that screen then does not find is nobody's mistake: no traceback, no exit status of it.
    """

    def _handle_exception(self, error: Exception) -> None:
        if not self._exit:
            super()._handle_exception(error)
