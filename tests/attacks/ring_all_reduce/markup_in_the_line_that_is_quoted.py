"""Fails in a line that is itself full of markup and terminal codes: the message quotes it.

family: injection
tries: harm
earned: 0
ends: crash
uses: won
"""

def ring_all_reduce(tensor):
    raise ValueError("x") if True else "`</code><script>alert(1)</script>[red]"  # `<img src=x onerror=alert(1)>` 
