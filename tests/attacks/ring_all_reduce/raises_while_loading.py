"""Raises what is no Exception while it is being imported, from a module that has replaced itself.

family: while_loading
tries: harm
earned: 0
ends: crash, left_early, missing_function
uses: won
"""

class Sly:
    def __getattr__(self, name):
        return lambda *_: None


sys.modules[__name__] = sys.modules["submission"] = Sly()
raise KeyboardInterrupt
