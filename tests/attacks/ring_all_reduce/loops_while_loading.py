"""Loops for ever while it is being imported: there is no call yet.

family: while_loading
tries: harm
earned: 0
heavy: yes
ends: timeout
uses: won
"""

while True:
    pass
