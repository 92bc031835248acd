"""Raises an exception whose text is HTML, SVG, JavaScript and rich's markup, in one and in several lines.

family: injection
tries: harm
earned: 0
ends: crash
uses: won
"""

TEXT = "</pre></p><script>alert(1)</script><img src=x onerror=alert(1)> <svg onload=alert(1)> ]]> --> `<b>` &lt;"


def ring_all_reduce(tensor):
    raise ValueError(TEXT + " [bold red]20 of 20[/] [link=file:///etc/passwd]click[/link] [/] %s {0}\n" + TEXT)
