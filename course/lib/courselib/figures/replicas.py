"""A log with in-sync replicas: messages are sent, followers fetch or fall behind, brokers die. What is lost?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from courselib import isr
from courselib.figures.shown import figure

HURTS = ("send", "fetch b2", "fetch b3", "send", "kill b1")


def replicas(acks: str = "1", min_isr: int = 1, unclean: bool = False, steps: Sequence[str] = HURTS) -> Any:
    """The steps of `isr` as buttons, and what `acks` and `min.insync.replicas` make of them."""
    setting = isr.Setting(acks, min_isr, unclean)
    still = isr.picture(isr.played(setting, *steps), "A log and its in-sync replicas")
    return figure(
        "replicas",
        still,
        question="Lose an acknowledged message with acks=all and min.insync.replicas=1, without an unclean election. "
        "Then try it with min.insync.replicas=2.",
        answer="Send a message and let both followers leave the in-sync set. The next message is acknowledged by the "
        "leader alone, because it is 'all' of one. Wreck b1 (its disk is gone) and restart it: it is the last in-sync "
        "replica, so it leads with an empty log. A kill of the process is not enough: the partition then waits for b1. "
        "With min.insync.replicas=2 a message needs two logs, so two disks have to go. The price: with one replica in "
        "sync, sends are refused.",
        brokers=list(isr.BROKERS), acks=acks, min_isr=min_isr, unclean=unclean, steps=list(steps),
    )  # fmt: skip
