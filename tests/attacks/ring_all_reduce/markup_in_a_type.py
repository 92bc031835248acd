"""Raises exceptions whose types are called like markup: the name stands in the message and in the picture.

family: injection
tries: harm
earned: 0
ends: crash
uses: won
"""

def ring_all_reduce(tensor):
    raise type("<script>alert(1)</script>]]>\x1b[31m[red]&amp;\x01\u202e", (Exception,), {})("&<>\"'")
