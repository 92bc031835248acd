"""Is handed in under a name that is markup and a path: messages, pages and folders have it.

family: injection
tries: harm
earned: 0
ends: crash
uses: won
file: ..%2f<img src=x onerror=alert(1)>[red]`;$(touch x).py
"""

def ring_all_reduce(tensor):
    raise ValueError("see the name")
