"""Which scripts are played in which clusters, and the rule of the paper that each tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grader import says
from grader.exercises.common.scenes import Script
from grader.exercises.raft import leading, reading, restarts
from grader.exercises.raft import logs as log
from grader.exercises.raft import voting as votes
from grader.exercises.raft.scene import Scene


@dataclass(frozen=True)
class Act:
    """A script, the cluster it is for, and why what it shows would be wrong."""

    script: Callable[[Scene], Script]
    label: str
    sizes: tuple[int, ...] = (3,)
    runs: int = 2
    why: str = ""
    lost: bool = False  # whether what a read does not find was forgotten


FORWARDED = (
    Act(
        log.forwarded_again, "what a node forwards arrives twice", (3,), 2,
        "carry out each request once. A client's msg_id grows with each request, so it tells a copy from a new request.",
    ),
    Act(
        log.handed_in_again, "the leader hears no acknowledgements for 1.3 s", (3,), 1,
        "carry out each request once, also where it was handed to the leader again before its entry was committed.",
    ),
    Act(
        log.given_up, "all nodes are alone for 6 s", (3,), 1,
        "an entry in a log may be committed at any later time. Error 11 promises that it never will: for a write that may be "
        "in a log do not answer, or answer an error that promises nothing.",
    ),
)  # fmt: skip
VOTES = (
    Act(votes.voter_restarts, "a voter crashes and restarts inside an election", (3,), 3),
    Act(votes.leader_restarts, "a leader crashes and restarts inside its term", (3,), 3),
    Act(votes.voter_asked_twice, "two candidates ask the same voter", (3,), 2),
)
DURABLE = (
    Act(
        restarts.follower_forgets, "a follower crashes right after it acknowledged", (3,), 3,
        "confirm a write only when a majority has it on disk. A follower writes an entry to disk before it sends "
        "append_entries_res.", True,
    ),
    *(
        Act(
            restarts.same_entry_again(writes), f"a follower is sent an entry again, and crashes after {says.counted(writes, 'write')}", (3,), 1,
            "a crash may come after any write to disk. Leave an entry where it is if the one that was sent has the same index and "
            "term (Raft, figure 2).", True,
        )
        for writes in (1, 2)
    ),
    Act(
        restarts.leader_forgets, "the leader crashes right after it confirmed", (3,), 2,
        "the leader's own copy counts for the majority, so write it to disk before you send the entry.", True,
    ),
    Act(
        restarts.leader_restarts_alone, "a cut-off leader crashes and restarts with writes that nobody else has", (3,), 2,
        "an entry in the log on disk need not be committed. After a restart, a node learns from the leader what is committed.",
        True,
    ),
    Act(
        restarts.crashes_between_writes, "a follower crashes while entries of its log are replaced", (5,), 2,
        "a crash may come between any two writes to disk. What is on disk must make sense after each write.", True,
    ),
    *(
        Act(
            restarts.half_replaced(effects), f"a follower crashes after {effects} sends and writes of a new leader's entries",
            (5,), 1, "a crash may come between any two writes to disk. What is on disk must make sense after each write.", True,
        )
        for effects in (2, 3, 4)
    ),
    Act(
        restarts.old_leader_after_a_restart, "a follower restarts and hears an old leader", (5,), 2,
        "a node writes a term to disk as soon as it hears of it, also from append_entries. After a restart it still refuses "
        "append_entries of an older term.", True,
    ),
    Act(
        restarts.power_cut, "all nodes lose power", (3, 5), 2, "confirm a write only when it is on the disks of a majority.", True,
    ),
)  # fmt: skip
COMPLETE = (
    Act(
        log.lagging_follower_stands, "a node that lags behind asks for votes", (3,), 2,
        "a voter refuses a candidate whose log is less up to date than its own. Compare the terms of the last entries, then "
        "the lengths (section 5.4.1).", True,
    ),
    Act(
        log.long_log_stands, "a node with a longer, older log asks for votes", (3,), 2,
        "the log whose last entry has the later term is more up to date. Compare lengths only if these terms are equal "
        "(section 5.4.1).", True,
    ),
    Act(
        log.longer_log_matches, "an old leader with a longer log hears heartbeats only", (3,), 2,
        "in append_entries_res a follower tells how far its log agrees with the leader's: up to the last entry of that "
        "append_entries. Later entries of its own log may come from another leader.", True,
    ),
    Act(
        log.half, "the leader reaches no majority", (5, 4, 5), 3,
        "a majority is more than half of all nodes, with the leader itself counted once.", True,
    ),
)  # fmt: skip
FIGURE_8 = (
    Act(
        log.figure_8, "figure 8 of the paper", (5,), 3,
        "commit only an entry of the leader's own term by counting replicas. This commits the earlier entries as well. An "
        "entry of an earlier term is not committed by being on a majority (section 5.4.2, figure 8).",
    ),
)  # fmt: skip
LATE = (
    Act(votes.a_vote_again, "a vote arrives three times", (5,), 2),
    Act(votes.votes_of_two_terms, "a candidate gets one vote in each of two terms", (5,), 1),
    Act(votes.late_votes, "votes arrive one term late", (3,), 3),
    Act(
        log.late_acknowledgements, "acknowledgements arrive two terms late", (5,), 2,
        "count an append_entries_res only in the term in which it was sent. The log may have changed since then.", True,
    ),
    Act(
        log.acknowledgements_of_before, "a node leads again, with another log", (5,), 1,
        "what followers acknowledged in an earlier term says nothing of their logs now. A node that becomes leader knows of no "
        "follower how far its log agrees.", True,
    ),
    Act(
        log.old_leader_appends, "append_entries of an old leader arrive late", (3,), 2,
        "an append_entries with a lower term than the node's own changes nothing.", True,
    ),
    Act(
        log.appends_again, "append_entries arrive again, out of order", (3,), 2,
        "remove entries only from the first conflicting one on. An old append_entries holds fewer entries than the follower "
        "has already acknowledged (section 5.3).", True,
    ),
)  # fmt: skip
READS = (
    Act(
        reading.old_leader_reads, "a client asks a leader that was cut off", (3, 5), 3,
        "a leader that cannot reach a majority may have been replaced. Hear from a majority before you answer a read, or put "
        "the read into the log (section 8).",
    ),
    Act(
        reading.old_leader_compares, "a client asks a leader that was cut off for a cas", (3,), 1,
        "error 22 says what the value is not, so it is a read. A leader that was cut off may not know the last value. Put a cas "
        "into the log, and compare when its entry is applied.",
    ),
    Act(
        reading.lagging_follower_reads, "a client asks a follower that was cut off", (3,), 2,
        "a follower does not know what is committed. Forward a read to the leader, or answer error 11.",
    ),
    Act(
        reading.old_acknowledgements_and_a_read, "acknowledgements arrive late, after a read was asked for", (3,), 3,
        "count only replies to messages that the leader sent after the read arrived. Older replies do not show that it "
        "still leads.",
    ),
    Act(
        reading.acknowledgements_of_an_earlier_term, "acknowledgements of a leader's first term arrive in its second", (3,), 2,
        "for a read, count only answers to messages that the leader sent in its present term. A node that becomes leader "
        "again has no such answer yet, so forget the answers of its earlier term.",
    ),
    Act(
        reading.before_its_own_entry, "a node leads again, and is asked for a read at once", (3,), 1,
        "a new leader may have entries that are committed without knowing it. Answer a read when an entry of the leader's own "
        "term is committed (section 8).",
    ),
    Act(
        reading.restarted_voter_and_a_read, "a follower restarts and is asked for its vote at once", (3,), 2,
        "a leader may answer reads by a lease only if no follower votes before it is over. A follower that restarts does not "
        "know when it acknowledged last, so it must wait before it votes.",
    ),
    Act(
        reading.standing_leader_reads, "a leader that was paused is asked for a read", (3,), 2,
        "a leader that was paused may have been replaced meanwhile. Hear from a majority before you answer a read.",
    ),
    Act(
        reading.late_leader_reads, "a leader whose timers are late is asked for a read; acknowledgements of before arrive", (3,), 1,
        "count only replies to messages that the leader sent after the read arrived. Older replies do not show that it "
        "still leads.",
    ),
)  # fmt: skip
AVAILABLE = (
    Act(leading.minority_down, "a minority is down", (3, 5), 4),
    Act(leading.deposed, "a follower that lags behind deposes the leader", (3,), 1),
    Act(leading.healed, "all is whole again", (3, 5), 2),
)
