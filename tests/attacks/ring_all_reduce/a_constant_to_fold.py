"""Has the compiler fold constants and nest blocks, as deep as it takes.

family: bombs
tries: harm
earned: 0
ends: any
uses: won
"""

exec("x = (" + "(1,) * 250," * 20_000 + ")\n" * 1)
exec("x = " + "[" * 150 + "]" * 150 + "\n")
exec("\n".join(" " * i + "if 1:" for i in range(99)) + "\n" + " " * 99 + "x = 1")
exec("f = " + "lambda: " * 50_000 + "1")


def ring_all_reduce(tensor):
    pass
