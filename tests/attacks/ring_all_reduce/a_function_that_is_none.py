"""Offers in place of a function an object whose signature, name and every attribute run code of its own, and never
end.

family: while_loading
tries: harm
earned: 0
heavy: yes
ends: timeout, crash, missing_function, left_early
uses: won
"""

class Sly:
    def __call__(self, *_):
        while True:
            pass

    def __getattribute__(self, name):
        if name == "__signature__":
            while True:
                pass
        return object.__getattribute__(self, name)


ring_all_reduce = Sly()
