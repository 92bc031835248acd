"""A page that is kept up to date in a browser: served on this machine only, at an address that has to be known."""

from __future__ import annotations

import contextlib
import os
import secrets
import socketserver
import threading
import webbrowser
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import cast

from rich.console import Console

from grader.submission import BadRequest

HOST = "127.0.0.1"
_ALIVE_SECONDS = 15.0  # after so long without news the browser is told that there is none
SCRIPT = """
(() => {
  const gone = document.createElement("p");
  gone.textContent = "rankup watch has ended. This page is no longer kept up to date.";
  gone.setAttribute("role", "status");
  gone.style.cssText = "position:fixed;bottom:0;left:0;right:0;margin:0;padding:.5em 1em;background:#8a4b00;color:#fff";
  (async () => {
    for (;;) {
      try {
        const answer = await fetch("changes/" + document.documentElement.dataset.version, { cache: "no-store" });
        if (await answer.text()) return location.reload();
        gone.remove();
      } catch {
        document.body.append(gone);
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
    }
  })();
})();
"""


class Live:
    """One page and its address. Browsers that show it load it again whenever it is shown anew."""

    def __init__(self) -> None:
        """Raises OSError where no port is to be had."""
        self._key = secrets.token_urlsafe(16)
        self._server = _Server((HOST, 0), _Handler)
        self._server.live = self
        self._changed = threading.Condition()
        self._page, self._version, self._over = "", 0, False
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    @property
    def origin(self) -> str:
        return f"{HOST}:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.origin}/{self._key}/"

    def show(self, page: str) -> None:
        """Have browsers show this."""
        with self._changed:
            self._version += 1
            self._page = page.replace("<html", f'<html data-version="{self._version}"', 1)
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody answers at the address any more."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, host: str, path: str) -> tuple[str, bytes] | None:
        """What is at a path, its type first; None where nothing is. News are waited for."""
        if host != self.origin or not path.startswith(f"/{self._key}/"):  # another name for this host is a trick
            return None
        rest = path.removeprefix(f"/{self._key}/")
        if not rest:
            return "text/html; charset=utf-8", self._page.encode()
        seen = rest.removeprefix("changes/")
        return ("text/plain", self._news(seen)) if seen != rest else None

    def _news(self, seen: str) -> bytes:
        """Something, as soon as there is another page than the browser has."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or str(self._version) != seen, _ALIVE_SECONDS)
            return b"new" if not self._over and str(self._version) != seen else b""


@dataclass
class Page:
    """The page of what was graded last; nothing is written of it before it is asked for."""

    _live: Live | None = None

    @property
    def url(self) -> str | None:
        """Where it is, once it has been asked for."""
        return self._live.url if self._live else None

    def show(self, page: str, console: Console) -> None:
        """Open it in a browser, or, where it is open, have the browser show this."""
        if self._live is not None:
            return self._live.show(page)
        try:
            self._live = Live()
        except OSError as error:
            raise BadRequest(f"no page can be shown: {error.strerror}") from None
        self._live.show(page)
        shown = _browser() is not None and webbrowser.open(self._live.url)
        told = "follows" if shown else "is for a browser on this machine, and follows"
        console.print(f"\nThe page {told} each save:\n  {self._live.url}", soft_wrap=True)
        return None

    def close(self) -> None:
        if self._live is not None:
            self._live.close()


def _browser() -> webbrowser.BaseBrowser | None:
    """The learner's browser, unless it would take the terminal."""
    with contextlib.suppress(webbrowser.Error):
        found = webbrowser.get()
        if "BROWSER" in os.environ or type(found) is not webbrowser.GenericBrowser:
            return found
    return None


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    live: Live

    def handle_error(self, *_: object) -> None:
        """A browser that goes is no error."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = cast(_Server, self.server).live.answer(self.headers.get("Host", ""), self.path)
        kind, body = found or ("text/plain", b"not found")
        self.send_response(200 if found else 404)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed into the learner's terminal."""
