"""Writes bytes that are no UTF-8 to its descriptors, null bytes and halves of characters among them, and then fails.

family: injection
tries: harm
earned: 0
ends: crash
uses: won
"""

def ring_all_reduce(tensor):
    for descriptor in (1, 2):
        os.write(descriptor, bytes(range(256)) * 8 + b"\xed\xa0\x80\xf0\x9f\x98 \xff\xfe \xc0\xaf </script>")
    raise ValueError("see above")
