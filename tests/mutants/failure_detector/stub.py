"""Nothing is done yet.

check: phi
kind: wrong_result
"""


class PhiAccrualDetector:
    def __init__(self, window: int, threshold: float) -> None:
        pass

    def heartbeat(self, now: float) -> None:
        pass

    def phi(self, now: float) -> float:
        return 0.0

    def alive(self, now: float) -> bool:
        return True
