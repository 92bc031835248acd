"""Nothing is written yet.

check: commit
kind: not_available
"""

from typing import Any

from grader.nodes import Node


class Coordinator(Node):
    """Asks all participants of a transaction, decides, and tells them until each has said that it knows."""

    def on_start(self) -> None:
        pass

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        pass

    def on_timer(self, name: str) -> None:
        pass


class Participant(Node):
    """Keeps values, and promises: who has voted yes waits for the outcome, however long that takes."""

    def on_start(self) -> None:
        pass

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        pass

    def on_timer(self, name: str) -> None:
        pass
