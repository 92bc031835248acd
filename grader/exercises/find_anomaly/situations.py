"""Histories that are built for one rule each, in a short notation.

A transaction is a name and its operations: `x+1` appends 1 to x, `x=1,2` reads [1, 2], `x=` reads [], and `x~` reads null. `!`
before the name: it failed. `?`: its outcome is unknown. `present` is what must be reported, and `telling` are mistakes
(see `readings`) that give something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Situation:
    """A small history, and what it is for."""

    group: str
    label: str
    text: str
    present: frozenset[str]
    telling: tuple[str, ...] = ()
    # backward: the list is; descending: the indices are; from zero: they and the values are; one process: all have the same
    names: str = ""


def _s(group: str, label: str, text: str, present: str = "", *telling: str, names: str = "") -> Situation:
    return Situation(group, label, text, frozenset(present.split()), telling, names)


# edges a -> b, b -> c, c -> b, c -> d, d -> a: who follows the first edge from each leaves `a` and does not come back
WAY_IN_WW = "a: p+1 t+2; b: p+2 q+1 r+2; c: q+2 r+1 s+1; d: s+2 t+1; z: p=1,2 q=1,2 r=1,2 s=1,2 t=1,2"
WAY_IN_RW = "a: p= t+1; b: p+1 q= r+1; c: q+1 r= s=; d: s+1 t=; z: p=1 q=1 r=1 s=1 t=1"

SITUATIONS = (
    # ---- G1a
    _s("aborted", "the last value of a read was appended by a failed transaction",
       "a: x+1; !b: x+2 y~; c: x=1,2; z: x=1", "G1a"),
    _s("aborted", "a value in the middle of a read was appended by a failed transaction",
       "a: x+1; !b: x+2; c: x+3; d: x=1,2,3; z: x=1,3", "G1a", "g1a_last"),
    _s("aborted", "the second read of a key holds a value of a failed transaction",
       "a: x+1 y+1; !b: y+2; c: y=1 x=1 y=1,2; z: x=1 y=1", "G1a", "one_read"),
    _s("aborted", "the first read of a key holds a value of a failed transaction",
       "a: x+1 y+1; !b: y+2; c: y=1,2 x=1 y=1; z: x=1 y=1", "G1a", "last_read"),
    _s("aborted", "the value of a failed transaction is in a key whose reads contradict each other",
       "a: x+1; b: x+2; !c: x+3; d: x=2,3,1; z: x=1,2", "G1a", "g1a_ordered"),
    _s("aborted", "nobody read what the failed transaction appended",
       "a: x+1; !b: x+2 y+5; c: x=1 x+3; z: x=1,3 y=", ""),
    _s("aborted", "a failed transaction appended the same value to another key",
       "a: x+1; !b: y+1; c: x=1; z: x=1 y=", "", "by_value"),
    _s("aborted", "a failed transaction appended to keys that others read and wrote",
       "a: x+1 y+1; !b: x+2 y+2; c: x=1 y=1 y+3; d: y=1,3 x+4; z: x=1,4 y=1,3", ""),
    _s("aborted", "the failed transaction has index 0",
       "!a: x+1; b: x=1; z: x=", "G1a", names="from zero"),
    # ---- G1b
    _s("intermediate", "a read ends with the first of two values that another transaction appended",
       "a: x+1 x+2; b: x=1; z: x=1,2", "G1b G-single"),
    _s("intermediate", "a read ends with the second of three values",
       "a: x+1 x+2 x+3; b: x=1,2; z: x=1,2,3", "G1b G-single"),
    _s("intermediate", "a read ends with the first of two values of a transaction of unknown outcome",
       "?a: x+1 x+2; b: x=1; z: x=1", "G1b", "g1b_info"),
    _s("intermediate", "a transaction read its own first append before it made its second",
       "a: x+1 x=1 x+2 x=1,2; z: x=1,2", "", "g1b_own"),
    _s("intermediate", "the first of two values is in a read, but the read ends with the second",
       "a: x+1 x+2; b: x=1,2; c: x=1,2 x+3; z: x=1,2,3", "", "g1b_inside"),
    _s("intermediate", "the first of two values is inside a read that does not hold the second",
       "a: x+1 x+3; b: x+2; c: x=1,2; z: x=1,2,3", "G0 G-single", "g1b_inside"),
    _s("intermediate", "a read holds the second of two values before the first",
       "a: x+1 x+2; b: x=2,1; z: x=2,1", "G1b"),
    _s("intermediate", "the intermediate value is in a key whose reads contradict each other",
       "a: x+1 x+2; b: x+3; c: x=1; d: x=3; z: x=1,2,3", "G1b", "g1b_ordered"),
    _s("intermediate", "the second read of a key ends with an intermediate value",
       "a: x+1 x+2; b: x+3; c: y= x=3 x=1; z: x=1,2,3", "G1b", "one_read"),
    _s("intermediate", "the writer appended to another key later",
       "a: x+1 y+2; b: x=1 y=2; c: x=1 x+3; z: x=1,3 y=2", ""),
    _s("intermediate", "a later transaction appended the intermediate value to another key",
       "a: x+1 x+2; b: y+1; c: x=1; z: x=1,2 y=1", "G1b G-single", "by_value"),
    _s("intermediate", "the writer of the intermediate value has index 0",
       "a: x+1 x+2; b: x=1; z: x=1,2", "G1b G-single", names="from zero"),
    _s("intermediate", "the first of two values of a failed transaction was read",
       "!a: x+1 x+2; b: x=1; z: x=", "G1a", "failed_in"),
    # ---- version orders
    _s("order", "a failed transaction's value stands between two versions of a key",
       "a: x+1 y+1; b: x+3 y+2; !f: x+2; c: x=1,2,3; z: x=1,3 y=2,1", "G0 G1a", "no_removal"),
    _s("order", "a failed transaction's value stands twice in a read",
       "a: x+1 y+1; b: x+3 y+2; !f: x+2; c: x=1,2,2,3; z: x=1,3 y=2,1", "G0 G1a", "no_removal"),
    _s("order", "a read is the longest only with values of failed transactions",
       "a: x+1 y+1; b: x+2 y+2; !f: x+7; !g: x+8; c: x=7,8,1; z: x=1,2 y=2,1", "G0 G1a G-single", "longest_raw"),
    _s("order", "two reads of x contradict each other, so x gives no edges",
       "a: x+1 y+1; b: x+2 y+2; c: x=1,2; d: x=2; z: x=1,2 y=2,1", "", "conflicts"),
    _s("order", "the two longest reads of x have different orders",
       "a: x+1 y+1; b: x+2 y+2; c: x=1,2; z: x=2,1 y=2,1", "", "conflicts"),
    _s("order", "a read of x in the middle of another read is no beginning of it",
       "a: x+1 y+1; b: x+2 y+2; e: x+3; c: x=1,3; z: x=1,2,3 y=2,1", "", "conflicts"),
    _s("order", "a read of x begins otherwise than the longest, but its last value is in the same place",
       "a: x+1 y+1; b: x+2 y+2; e: x+3; c: x=3,2; z: x=1,2,3 y=2,1", "", "conflicts"),
    _s("order", "the longest read of x repeats a value, so x gives no edges",
       "a: x+1 y+1; b: x+2 y+2; z: x=1,2,1 y=2,1", "", "repeats"),
    _s("order", "a shorter read of x repeats a value, so it is no beginning of the longest",
       "a: x+1 y+1; b: x+2 y+2; e: x+3; c: x=1,1; z: x=1,2,3 y=2,1", "", "conflicts"),
    _s("order", "one key has contradicting reads, the two others have an order",
       "a: x+1 y+1 w+1; b: x+2 y+2 w+2; c: x=1; d: x=2; z: x=1,2 y=1,2 w=2,1", "G0", "all_keys"),
    _s("order", "some reads of x are beginnings of the longest one",
       "p: x+1; a: x+2 y+1; b: x+3 y+2; c: x=; d: x=1; e: x~; z: x=1,2,3 y=2,1", "G0"),
    _s("order", "two keys hold the same values",
       "a: x+1 y+2; b: x+2 y+1; z: x=1,2 y=1,2", "G0", "by_value"),
    _s("order", "later versions of a key have smaller values",
       "a: x+5 y+4; b: x+3 y+9; z: x=5,3 y=4,9", "", "by_number"),
    _s("order", "the longest read of a key is not the last one in the list",
       "a: x+1 y+1; c: x=1,2 y=2,1; b: x+2 y+2; z: x= y=", "G0", "by_list"),
    # ---- edges
    _s("edges", "a read of [] comes before the first version",
       "a: x= y=1; b: x+1 y+1; z: x=1 y=1", "G-single", "no_first"),
    _s("edges", "a read of null comes before the first version",
       "a: x~ y=1; b: x+1 y+1; z: x=1 y=1", "G-single", "no_first", "null_skipped"),
    _s("edges", "a transaction read a key twice and saw two states",
       "a: x= x=1; b: x+1; z: x=1", "G-single", "one_read", "last_read"),
    _s("edges", "the second read of a key closes the cycle",
       "b: x+1; c: x+2 y+1; a: x=1 y= x=1,2; z: x=1,2 y=1", "G-single", "one_read"),
    _s("edges", "the first read of a key closes the cycle",
       "b: x+1; c: x+2 y+1; a: x=1 y=1 x=1,2; z: x=1,2 y=1", "G-single", "last_read"),
    _s("edges", "a read that ends with the own append gives no edges",
       "a: x+1; b: x+2 x=1,2 y=1; c: x+3 y+1; z: x=1,2,3 y=1", "G1c", "own_append"),
    _s("edges", "the next version is the reader's own, so the read gives no rw edge",
       "a: x= y=1 x+1; b: x+2 y+1; z: x=1,2 y=1", "G1c", "skips_own"),
    _s("edges", "a transaction depends on nobody but itself",
       "a: x= x+1 x=1 x+2 x=1,2; b: ; z: x=1,2", ""),
    _s("edges", "the own append is in the middle of a read",
       "a: x+1; b: x+2 x=1,2,3; c: x+3; z: x=1,2,3", "G1c"),
    _s("edges", "a transaction read an old version and overwrote the latest one (lost update)",
       "a: x+1; b: x=1 x+2; c: x=1 x+3; z: x=1,2,3", "G-single", "no_rw"),
    _s("edges", "a read of nothing is far from the last version",
       "a: x+1; b: x+2; c: x+3 y+1; d: x= y+2; z: x=1,2,3 y=1,2", "G-single", "no_first"),
    _s("edges", "a read of three versions gives an edge from the writer of the last one",
       "a: x+1 y+2; b: x+2; c: x+3; d: x=1,2,3 y+1; z: x=1,2,3 y=1,2", "G1c"),
    _s("edges", "every transaction read all that was there, and its own appends",
       "a: x= x+1 y+1; b: x=1 x+2 x=1,2 y=1; c: x=1,2 y=1 y+2; d: y=1,2 x=1,2 x+3; z: x=1,2,3 y=1,2", ""),
    # ---- info
    _s("unknown", "a transaction of unknown outcome happened: both of its appends were read",
       "?a: x+1 y+2; b: x+2 y+1; z: x=1,2 y=1,2", "G0", "info_failed", "info_out"),
    _s("unknown", "a transaction read an append of unknown outcome",
       "?a: x+1 y+2; b: x=1 y+1; z: x=1 y=1,2", "G1c", "info_failed", "info_out"),
    _s("unknown", "a transaction saw one append of unknown outcome and missed the other",
       "?a: x+1 y+1; b: x= y=1; z: x=1 y=1", "G-single", "info_failed", "info_out"),
    _s("unknown", "nobody read what a transaction of unknown outcome appended",
       "a: x+1 y+1; ?b: x+2 y+2; c: x=1 y=1 y+3; z: x=1 y=1,3", ""),
    _s("unknown", "of two appends of unknown outcome one was read",
       "?a: x+9 y+1; b: y=1 x+2; z: x=2 y=1", "", "unseen_last", "info_failed"),
    _s("unknown", "the reads of a transaction of unknown outcome mean nothing",
       "?a: x~ y+1; b: x+1 y+2; z: x=1 y=2,1", "", "info_reads", "info_failed"),
    _s("unknown", "two transactions of unknown outcome happened",
       "?a: x+1 y+2; ?b: x+2 y+1; c: x=1,2; z: x=1,2 y=1,2", "G0", "info_failed", "info_out"),
    _s("unknown", "a failed transaction's null reads mean nothing",
       "!a: x~ y~; b: x+1 y+2; c: x=1 y=2; z: x=1 y=2", ""),
    # ---- G0 and G1c
    _s("writes", "two edges of each two transactions: ww and wr one way, ww the other",
       "a: x+1; b: x=1 x+2 y+1; a2: ; c: y=1; d: x=1,2; e: w+1 v+2; f: w+2 v+1 u+1; g: u=1; z: x=1,2 y=1 w=1,2 v=1,2 u=1",
       "G0"),
    _s("writes", "one step of the cycle is ww and wr, the other is ww",
       "a: x+1 y+2; b: x=1 x+2 y+1; z: x=1,2 y=1,2", "G0 G1c", "one_kind"),
    _s("writes", "one step is ww and rw, the other is wr",
       "a: x+1 y= w=1; b: x+2 y+1 w+1; z: x=1,2 y=1 w=1", "G1c G-single", "one_kind", "last_kind"),
    _s("writes", "one transaction's two appends stand around another's (G0)",
       "a: x+1 x+3; b: x+2; z: x=1,2,3", "G0"),
    _s("writes", "from the first transaction the edges lead into a cycle of ww edges that goes round without it",
       WAY_IN_WW, "G0"),
    _s("writes", "from the last transaction the edges lead into a cycle of ww edges that goes round without it",
       WAY_IN_WW, "G0", names="descending"),
    # ---- G-single
    _s("single", "a step is ww and rw, the other step is rw",
       "a: x= x+1 y=; b: x= x+2 y+1; z: x=1,2 y=1", "G-single", "last_kind"),
    _s("single", "a step is wr and rw, the other step is rw",
       "a: u+1 y= x=; b: u=1 y+1 v=; c: ; a3: x+1; e: v+1; d: x=1; a4: ; z: u=1 y=1 x=1 v=1", ""),
    _s("single", "a read skew: one key before, the other after an update of both",
       "o: x+1 y+1; a: x=1 y=1,2; b: x=1 x+2 y=1 y+2; z: x=1,2 y=1,2", "G-single", "no_rw"),
    _s("single", "two cycles of one rw edge each share a transaction, through which no cycle goes twice",
       "a: x= y=1; m: x+1 y+1 v+1 w+1; b: v= w=1; z: x=1 y=1 v=1 w=1", "G-single", "no_first"),
    _s("single", "a G-single cycle and a cycle of two rw edges share a transaction",
       "a: x= y+1 w+1; b: y= x+1; c: w= y+2; z: x=1 y=1,2 w=1", "G-single", "no_first"),
    # ---- G2-item
    _s("item", "write skew: two transactions read both keys and each appended to one",
       "o: x+1 y+1; a: x=1 y=1 x+2; b: x=1 y=1 y+2; z: x=1,2 y=1,2", "G2-item", "no_rw"),
    _s("item", "write skew on keys that nobody had appended to",
       "a: x= y= x+1; b: x= y= y+1; z: x=1 y=1", "G2-item", "no_first"),
    _s("item", "two readers saw two appends in different orders (long fork)",
       "a: x+1; b: y+1; c: x=1 y=; d: x= y=1; z: x=1 y=1", "G2-item", "no_first"),
    _s("item", "one group of transactions has a G-single cycle, another has only cycles of two rw edges",
       "a: x= x+1; b: x= x+2; c: y= w+1; d: w= y+1; z: x=1,2 y=1 w=1", "G-single G2-item", "whole_graph"),
    _s("item", "one group of transactions has a G0 cycle, another has only cycles of two rw edges",
       "a: x+1 v+2; b: x+2 v+1; c: y= w+1; d: w= y+1; z: x=1,2 v=1,2 y=1 w=1", "G0 G2-item", "whole_graph"),
    _s("item", "a cycle of two rw edges leads to a transaction with a cycle of its own",
       "a: x= y+1; b: y= x+1 w+1; c: w=1 u+1 v+2; d: u+2 v+1; z: x=1 y=1 w=1 u=1,2 v=1,2", "G0 G2-item", "whole_graph"),
    _s("item", "two cycles of two rw edges share a transaction",
       "a: y= x+1; b: v= u+1; m: x= u= y+1 v+1; z: x=1 y=1 u=1 v=1", "G2-item", "no_first"),
    _s("item", "from the first transaction the edges lead into a cycle of rw edges that goes round without it",
       WAY_IN_RW, "G2-item", "no_first"),
    _s("item", "from the last transaction the edges lead into a cycle of rw edges that goes round without it",
       WAY_IN_RW, "G2-item", "no_first", names="descending"),
    # ---- names
    _s("stores", "the list begins with the last transaction, and the indices count backward",
       "a: x= x+1 y+1; b: x=1 x+2; c: x=1,2 y=1 y+2; z: x=1,2 y=1,2", "", names="backward"),
    _s("stores", "later transactions have smaller indices",
       "a: x+1 y+2; b: x+2 y+1; z: x=1,2 y=1,2", "G0", "by_index", names="descending"),
    _s("stores", "the first index is 0, and so is the first value",
       "a: x+1 y+2; b: x+2 y+1; z: x=1,2 y=1,2", "G0", names="from zero"),
    _s("stores", "all transactions have the same process",
       "z: x=1,2 y=1; a: y= x+1; b: x=1 y+1; c: x=1 y=1 x+2", "", "sessions", names="one process"),
)  # fmt: skip

# Cycles that are made by `rings`: the kinds of their steps, each on a key of its own. A step of several kinds has several keys.
RINGS: tuple[tuple[str, str, str, Sequence[str]], ...] = (
    ("writes", "a cycle of two ww edges", "G0", ("ww", "ww")),
    ("writes", "a cycle of ww edges only", "G0", ("ww", "*ww")),
    ("writes", "a cycle of two wr edges", "G1c", ("wr", "wr")),
    ("writes", "a cycle of wr edges only", "G1c", ("wr", "*wr")),
    ("writes", "a cycle with one wr edge", "G1c", ("wr", "ww")),
    ("writes", "a long cycle with one wr edge", "G1c", ("wr", "*ww")),
    ("single", "a long cycle of ww and wr edges, one step of which is also rw", "G1c G-single", ("wr", "ww+rw", "*ww")),
    ("writes", "a long cycle of ww edges, one step of which is also wr", "G0 G1c", ("ww+wr", "*ww")),
    ("single", "a cycle of an rw and a ww edge", "G-single", ("rw", "ww")),
    ("single", "a cycle of an rw and a wr edge", "G-single", ("rw", "wr")),
    ("single", "a cycle of one rw edge and ww edges", "G-single", ("rw", "*ww")),
    ("single", "a cycle of one rw edge and wr edges", "G-single", ("rw", "*wr")),
    ("single", "a cycle of one rw edge, wr and ww edges", "G-single", ("rw", "wr", "ww", "*wr")),
    ("single", "a cycle with an rw edge and a step that is rw and ww", "G-single", ("rw", "rw+ww", "*wr")),
    ("writes", "a cycle of ww edges, one step of which is also rw", "G0 G-single", ("ww+rw", "*ww")),
    ("item", "a cycle of two rw edges", "G2-item", ("rw", "rw")),
    ("item", "a long cycle of rw edges only", "G2-item", ("rw", "rw", "*rw")),
    ("item", "a long cycle with two rw edges next to each other", "G2-item", ("rw", "rw", "*ww")),
    ("item", "a long cycle with two rw edges that are apart", "G2-item", ("rw", "wr", "rw", "*ww")),
    ("item", "a long cycle with three rw edges, one step of which is also wr", "G2-item", ("rw", "rw+wr", "rw", "*wr")),
)  # fmt: skip
