"""Runs at most eight requests at a time, which is too slow, and has steps take a tenth of their time in the harness.

family: patched_counters
tries: points
earned: 28
ends: too_slow, sandbox_violation
uses: reference
"""

from grader.serving import run

of_a_step = run.ticks
run.ticks = lambda chunks: of_a_step(chunks) // 10


class Slow(Engine):
    def admit(self, request):
        return len(self.running) < 8 and super().admit(request)


Engine = Slow
