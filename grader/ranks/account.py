"""What is known of a world: what each rank has said up to now, the trace of it, and what was noticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader.ranks import blame
from grader.ranks.faults import Fault
from grader.ranks.program import Ending, Program
from grader.sandbox import frames
from grader.sandbox.client import Moment, plain
from grader.sandbox.endings import MOST_NAME, Raised
from grader.trace.events import COLLECTIVE_CODES, RECV, RECV_ANY, SEND, SPANS, Operation, Span, Step, Trace
from grader.verdict import Diagnosis

COLLECTIVES = frozenset(COLLECTIVE_CODES.values())
MOST_DIAGNOSES, MOST_TEXT = 100, 1500
MOST_GROUPS = 1000  # of a rank, that are compared with those of others
MOST_BYTES = 2**50  # of an operation
MOST_REPORTS = 20_000  # of a call's ranks together; of more than MOST_DIAGNOSES nothing is kept


class RankState:
    """What is known of one rank."""

    def __init__(self) -> None:
        self.state = "starting"  # starting, loaded, running, returned, raised, killed (by a fault), dead
        self.events: list[frames.Events] = []  # read, not yet worked in
        self.operations: dict[int, Operation] = {}
        self.blocked: Operation | None = None
        self.result: frames.Message | None = None
        self.raised: Raised | None = None
        self.status: int | None = None
        self.asked = Moment(0.0, 0.0)  # when it was last given something to do

    @property
    def over(self) -> bool:
        return self.state in ("returned", "raised", "dead", "killed")

    @property
    def mark(self) -> str:
        """A word for the picture, where this rank broke."""
        if self.state == "raised" and self.raised is not None and self.broken:
            return f"raised {self.raised.type}"
        if self.raised is not None and self.raised.type == "PeerGone":
            return "saw it gone"
        return {"dead": "process died", "killed": "killed"}.get(self.state, "")

    @property
    def fallen(self) -> bool:
        return self.state in ("raised", "dead")

    @property
    def broken(self) -> bool:
        """Fallen, and not only because another rank's process is gone."""
        return self.fallen and not (self.raised is not None and self.raised.why == "peer")


class Broken(Exception):  # noqa: N818 - carries the diagnosis that ends the run
    def __init__(self, diagnosis: Diagnosis, ending: Ending) -> None:
        super().__init__(diagnosis.message)
        self.diagnosis, self.ending = diagnosis, ending


def tidy(diagnoses: list[Diagnosis]) -> list[Diagnosis]:
    return list(dict.fromkeys(diagnoses))


class Account:
    """The ranks' states, the trace and the diagnoses of one world, made of the frames that come from its box."""

    def __init__(self, program: Program, ranks: int, virtual: bool, faults: Sequence[Fault] = ()) -> None:
        """`virtual` says whether the ranks' times are, and `faults` what befalls them."""
        self.program, self.size, self.virtual, self.faults = program, ranks, virtual, faults
        self.source = blame.Source(program.file, program.source)
        self.ranks = [RankState() for _ in range(ranks)]
        self.groups: dict[int, tuple[int, ...]] = {}
        self.made: list[list[blame.Made]] = [[] for _ in range(ranks)]  # by new_group, of a watched program
        self.trace = Trace(ranks, virtual=virtual)
        self.diagnoses: list[Diagnosis] = []
        self.reports = 0
        self.problems: dict[str, str] = {}  # by function, why it cannot be called
        self.ring: list[int] = []
        self.unseen = ""  # what communicates and is not recorded
        self.endless: Diagnosis | None = None  # of the first rank that goes on for ever

    def begin_call(self) -> None:
        """The ranks are to make a call."""
        self.trace = Trace(self.size, groups=dict(self.groups), virtual=self.virtual)
        self.diagnoses, self.reports = [], 0
        for rank in self.ranks:
            rank.state, rank.events, rank.operations, rank.blocked, rank.result = "running", [], {}, None, None

    # ---- what the ranks say

    def take(self, number: int, frame: frames.Message | frames.Events) -> None:
        """What rank `number` says next. Raises FrameError for what cannot be."""
        if isinstance(frame, frames.Events):
            self.ranks[number].events.append(frame)
        else:
            self._message(number, self.ranks[number], frame)

    def end(self, number: int, status: int) -> None:
        """A rank's process has ended."""
        rank = self.ranks[number]
        if not rank.over or rank.state == "returned":
            rank.state, rank.status, rank.blocked = "dead", status, None

    def _message(self, number: int, rank: RankState, message: frames.Message) -> None:
        header = message.header
        match header.get("event"):
            case "loaded":
                rank.state = "loaded"
                self.take_problems(header.get("problems"))
            case "returned":
                rank.state, rank.result, rank.blocked = "returned", message, None
            case "raised":
                rank.raised = Raised.read(header, MOST_TEXT)
                rank.state, rank.blocked = "raised", None
            case "race":
                self._race(number, header)
            case "destroyed":
                self._destroyed(number, header)
            case "made_group":
                self._made(number, header)
            case "unseen":
                self.unseen = plain(header.get("what"), MOST_NAME)
            case "endless":
                try:
                    self.endless = self.endless or blame.endless(number, header, self.source)
                except (KeyError, TypeError, ValueError, OverflowError):
                    raise frames.FrameError("a report of a loop that does not fit") from None
            case "group":
                self._group(header)
            case "forbidden":
                line, what = header.get("line"), plain(header.get("call"), MOST_NAME)
                if self._is_kept():
                    found = blame.forbidden(number, what, line if isinstance(line, int) else None, self.source)
                    self.diagnoses.append(found)
            case _:
                raise frames.FrameError("a message of no known kind")

    def _group(self, header: dict[str, Any]) -> None:
        number, ranks = header.get("group"), header.get("ranks")
        if not isinstance(number, int) or not isinstance(ranks, list) or not set(ranks) <= set(range(self.size)):
            raise frames.FrameError("a group of ranks that do not exist")
        self.groups[number] = tuple(ranks)
        self.trace.groups[number] = tuple(ranks)

    def _is_kept(self) -> bool:
        """Whether one more report is kept. Raises FrameError for a flood of them."""
        self.reports += 1
        if self.reports > MOST_REPORTS:
            raise frames.FrameError(f"more than {MOST_REPORTS} reports")
        return len(self.diagnoses) < MOST_DIAGNOSES

    def _race(self, number: int, header: dict[str, Any]) -> None:
        if not self._is_kept():
            return
        try:
            peer, posted, line = (int(header[name]) for name in ("peer", "posted", "line"))
            found = blame.race(number, header["how"], peer, posted, line, self.source)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise frames.FrameError("a race report that does not fit") from None
        self.diagnoses.append(found)

    def _destroyed(self, number: int, header: dict[str, Any]) -> None:
        if not self._is_kept():
            return
        try:
            line, destroyed, call = int(header["line"]), int(header["destroyed"]), plain(header["call"], MOST_NAME)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise frames.FrameError("a report of a destroyed group that does not fit") from None
        self.diagnoses.append(blame.used_after_destroy(number, call, line, destroyed, self.source))

    def _made(self, number: int, header: dict[str, Any]) -> None:
        ranks, line = header.get("ranks"), header.get("line")
        if not isinstance(line, int) or not isinstance(ranks, list) or not set(ranks) <= set(range(self.size)):
            raise frames.FrameError("a new group of ranks that do not exist")
        if len(self.made[number]) < MOST_GROUPS:
            self.made[number].append((tuple(ranks), line))

    def take_problems(self, told: Any) -> None:
        """What a rank says of the functions it cannot call."""
        wanted = {function.name for function in self.program.functions}
        if not isinstance(told, dict) or not told.keys() <= wanted:
            raise frames.FrameError("problems of functions that were not asked for")
        self.problems |= {name: plain(why, 2 * MOST_NAME) for name, why in told.items()}

    def work_in_events(self) -> None:
        """Bring the trace up to date; put off until somebody asks, for it costs more than reading."""
        for number, rank in enumerate(self.ranks):
            events, rank.events = rank.events, []
            for event in events:
                self._events(number, rank, event)

    def _events(self, number: int, rank: RankState, events: frames.Events) -> None:
        operations, steps = rank.operations, self.trace.steps[number]
        for what, kind, threads, line, peer, tag, op_number, size, at in events:
            if what == frames.POST:
                if not self._possible(kind, peer, size) or op_number in operations:
                    raise frames.FrameError("an operation that cannot be")
                op = operations[op_number] = Operation(number, op_number, kind, peer, tag, size, line, at)
                op.info = threads & ~1
                steps.append(Step("post", op))
                continue
            if what == frames.SPAN:
                what_ = SPANS[kind] if kind < len(SPANS) else ""
                name = max(tag, 0).to_bytes(8).lstrip(b"\0").decode("ascii", "replace")
                if not what_ or not -1 <= peer < self.size or not (name.isalnum() or not name):
                    raise frames.FrameError("a span that cannot be")
                self.trace.spans.append(Span(number, what_, at, size, line, peer, name))
                continue
            known = operations.get(op_number)
            if known is None:
                raise frames.FrameError("an event of an operation that was never posted")
            if what == frames.FAILED:
                known.failed, known.resumed = True, at
                if rank.blocked is known:
                    rank.blocked = None
            elif what == frames.REFUSED:
                if not steps or steps[-1].operation is not known:
                    raise frames.FrameError("an operation that was refused before another was posted")
                steps.pop()
            elif what == frames.WAIT:
                known.waited, known.wait_line, known.threaded = at, line, bool(threads & 1)
                steps.append(Step("wait", known))
                rank.blocked = known if not rank.over else None
            else:
                known.done, known.resumed = True, at
                if self.virtual:
                    known.started, known.ended = tag, size
                if known.kind == RECV_ANY:
                    if not 0 <= peer < self.size:
                        raise frames.FrameError("a message of no rank")
                    known.peer = peer
                if rank.blocked is known:
                    rank.blocked = None

    def _possible(self, kind: int, peer: int, size: int) -> bool:
        """Whether there is such an operation in this world."""
        if size > MOST_BYTES:
            return False
        if kind in (SEND, RECV):
            return 0 <= peer < self.size
        return (kind == RECV_ANY and peer == -1) or (kind in COLLECTIVES and -1 <= peer < self.size)

    # ---- what follows from it

    def stuck(self) -> dict[int, set[int]]:
        """The ranks that can never go on, by what each has said up to now (see `blame.stuck`)."""
        self.work_in_events()
        blocked = {n: r.blocked for n, r in enumerate(self.ranks) if r.blocked is not None and not r.over}
        if not blocked:
            return {}
        return blame.stuck(self.trace, blocked, {n for n, r in enumerate(self.ranks) if r.over})

    def in_rank_order(self) -> list[Diagnosis]:
        """What was noticed, so that the order in which the ranks' reports came in does not show."""
        apart = blame.made_apart(self.made, {n for n, r in enumerate(self.ranks) if r.state == "returned"}, self.source)
        return sorted(tidy([*self.diagnoses, *apart]), key=lambda found: -1 if found.rank is None else found.rank)

    def found(self) -> tuple[Diagnosis, ...]:
        """What is to be said of a call that finished. Raises Broken if its collectives did not fit together."""
        different = blame.mismatched(self.trace, self.source)
        if different and not self.unseen:  # or it may have met one that is not recorded
            raise Broken(different, "mismatched")
        if self.program.p2p_only:  # what is forbidden in the rank's process may be allowed there again
            for op in self.trace.all_operations():
                if op.collective and op.name != "new_group":
                    self.diagnoses.append(blame.forbidden(op.rank, f"dist.{op.name}", op.line or None, self.source))
                    break
        more = [*blame.misread(self.trace, self.source), *blame.unreceived(self.trace, self.source)]
        return tuple(tidy([*self.diagnoses, *more]))

    def violation(self, what: str, rank: int | None = None) -> Diagnosis:
        who = "The submission" if rank is None else f"Rank {rank}"
        return Diagnosis("sandbox_violation", f"{who} {what}.", rank=rank, file=self.program.file)
