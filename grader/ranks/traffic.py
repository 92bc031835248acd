"""What the kernel counted in a box's network during a call, against what the ranks' trace says they sent.

A rank's own code could change what is recorded in its process; the counters of the box's loopback and of its sockets
are the kernel's. Only point-to-point messages are compared: how many bytes a collective moves is gloo's to choose.
"""

from __future__ import annotations

from dataclasses import dataclass

from grader.trace.events import SEND, Trace

# What gloo's headers, TCP's and a store's chatter may add
UNIT = 48  # bytes of each of gloo's headers, of which at least two belong to a message
HEADER, HEADERS = 144, 1024  # bytes a message: in its receiver's socket, and on the loopback with TCP's headers
ANSWER = 48  # bytes for each message in its sender's socket: "ready to receive"
PER_CALL, PER_CALL_CARRIED = 512, 8 * 1024
PER_GROUP = 4 * 1024  # and rank that makes it: its ranks find each other by the store
SHARE_CARRIED = 1.25  # the loopback also carries what acknowledges


@dataclass(frozen=True)
class Traffic:
    """Bytes that the loopback has carried, headers included, and that each rank's open sockets have received and
    sent."""

    carried: int
    received: tuple[int, ...]
    sent: tuple[int, ...] = ()

    def since(self, earlier: Traffic) -> Traffic:
        return Traffic(
            self.carried - earlier.carried,
            tuple(now - before for now, before in zip(self.received, earlier.received, strict=True)),
            tuple(now - before for now, before in zip(self.sent, earlier.sent, strict=True)),
        )


@dataclass(frozen=True)
class Contradiction:
    """Where counters and trace cannot both be right: on which rank (None: on all together), and both counts."""

    rank: int | None
    recorded: int
    counted: int

    @property
    def told(self) -> str:
        if self.rank is None:
            return f"all messages together were {self.recorded:,} bytes, and the network carried {self.counted:,}"
        return f"rank {self.rank} received {self.recorded:,} bytes in messages, and its sockets {self.counted:,}"


def contradiction(traffic: Traffic, trace: Trace) -> Contradiction | None:
    """The first contradiction, by rank; None if there is none.

    A message that is still on its way may have been carried or not. Where none is, and no group was made, what comes on
    top of the messages is a whole number of headers.
    """
    sent = [op for op in trace.all_operations() if op.kind == SEND]
    done = [send for send, recv in trace.messages if send.done and recv.done]
    meeting = PER_GROUP * sum(op.name == "new_group" for op in trace.all_operations())
    exact = not meeting and len(done) == len(sent)
    for rank in range(trace.ranks):
        came, to_it = [op.size for op in done if op.peer == rank], [op.size for op in sent if op.peer == rank]
        answers = ANSWER * sum(op.rank == rank for op in sent)
        more, most = traffic.received[rank] - sum(to_it), HEADER * len(to_it) + answers + PER_CALL + meeting
        too_few = traffic.received[rank] < sum(came) + 2 * UNIT * len(came)
        if too_few or more > most or (exact and more % UNIT):
            return Contradiction(rank, sum(to_it), traffic.received[rank])
    least, total = sum(op.size for op in done), sum(op.size for op in sent)
    if (
        not least
        <= traffic.carried
        <= SHARE_CARRIED * total + HEADERS * len(sent) + PER_CALL_CARRIED * trace.ranks + 2 * meeting
    ):
        return Contradiction(None, total, traffic.carried)
    return None
