"""Mistakes that people make when they read a history: what each takes for true, and what to do instead."""

from __future__ import annotations

MISTAKES = {
    "no_rw": ("there are no rw edges", "Add an edge from each reader to the writer of the next version."),
    "no_first": ("a read of nothing gives no edge", "It gives an rw edge to the writer of the first version."),
    "null_skipped": ("a null read of an ok transaction is no read", "It is a read of nothing, as [] is."),
    "one_read": ("only the first read of a key in a transaction counts", "Use every ok read."),
    "last_read": ("only the last read of a key in a transaction counts", "Use every ok read."),
    "own_append": (
        "a read that ends with the transaction's own append gives an rw edge",
        "Skip such a read: it gives no edges.",
    ),
    "skips_own": (
        "the rw edge goes on to the next foreign version if the next version is the reader's own",
        "Then add no rw edge: the ww edges go on from there.",
    ),
    "info_failed": (
        "info transactions failed",
        "The outcome of an info transaction is unknown. An append that an ok read saw did happen.",
    ),
    "info_out": (
        "info transactions are not in the graph",
        "An info transaction has the edges that its appends give it where ok reads saw them.",
    ),
    "info_reads": ("null reads of info transactions are reads of nothing", "They mean nothing: skip them."),
    "failed_in": ("failed transactions are in the graph", "Leave them out: only G1a is about them."),
    "no_removal": (
        "values of failed transactions count as versions",
        "Remove them from the reads before you compare the reads.",
    ),
    "longest_raw": (
        "the longest read of a key is the one that is longest with the values of failed transactions",
        "Remove these values from all reads first, then take the longest.",
    ),
    "conflicts": (
        "a key has the order of its longest read although another read is no prefix of it",
        "Such a key gives no edges.",
    ),
    "repeats": ("a key has an order although its longest read repeats a value", "Such a key gives no edges."),
    "all_keys": (
        "no key gives edges as soon as the reads of one key contradict each other",
        "Leave out only the keys whose own reads contradict each other.",
    ),
    "by_value": ("a value has one writer, whatever the key", "Look writers up by key and value."),
    "by_list": (
        "versions are in the order in which their writers stand in the list",
        "Take the order from the longest read of the key.",
    ),
    "by_list_counted": (
        "versions are in the order in which their writers stand in the list",
        "Take the order from the longest read of the key.",
    ),
    "by_index": (
        "versions are in the order of their writers' indices",
        "Take the order from the longest read of the key.",
    ),
    "by_number": ("versions are in the order of their values", "Take the order from the longest read of the key."),
    "unseen_last": (
        "appends of info transactions that nobody read come last",
        "Ignore appends that no ok read shows.",
    ),
    "sessions": (
        "the transactions of one process depend on each other in the order of their indices",
        "Leave `process` out: only ww, wr and rw are edges here.",
    ),
    "g1a_last": ("only the last value of a read counts for G1a", "Look at all values of a read."),
    "g1b_info": ("an info transaction is no writer for G1b", "Look at the appends of ok and info transactions."),
    "g1b_own": (
        "a transaction that reads its own append before its next one is G1b",
        "The writer must be another transaction.",
    ),
    "g1b_inside": ("an intermediate value anywhere in a read is G1b", "Only the last value of a read counts for G1b."),
    "g1b_first": (
        "the first value that a transaction appended to a key is its last",
        "Overwrite what you noted of an earlier append to the key: the last one counts.",
    ),
    "g1b_ordered": (
        "only keys that give edges count for G1b",
        "G1b needs no version order: look at every ok read.",
    ),
    "g1a_ordered": (
        "only keys that give edges count for G1a",
        "G1a needs no version order: look at every ok read.",
    ),
    "pairs": ("all cycles have two transactions", "A cycle may go through any number of transactions."),
    "one_kind": (
        "there is one kind of edge between two transactions, ww rather than wr, and wr rather than rw",
        "Keep all kinds: the cycle counts if one choice of kinds fits.",
    ),
    "last_kind": (
        "there is one kind of edge between two transactions, rw rather than wr, and wr rather than ww",
        "Keep all kinds: the cycle counts if one choice of kinds fits.",
    ),
    "g0_pairs": ("a G0 has two transactions", "A cycle may go through any number of transactions."),
    "unmixed": (
        "the way back of a G-single has ww edges only or wr edges only",
        "It may have both kinds.",
    ),
    "pure_wr": ("a G1c has wr edges only", "It may have ww edges, too, as long as one edge is wr."),
    "whole_graph": (
        "G2-item is only for histories without any other cycle",
        "Look at each strongly connected component by itself.",
    ),
    "single_is_g2": (
        "a cycle with one rw edge is G2-item",
        "Such a cycle is G-single: G2-item has two or more rw edges.",
    ),
    "none": ("there are no anomalies", "Report every class that the history has."),
}

# Of a read that ends with a value of a failed transaction: it gives no edges; what is left of it can be G1b. The rules can
# be understood either way, so no verdict depends on it.
ALSO = ("raw_end", "clean_g1b")
# as by_list, of keys whose reads agree, and a read is followed by the version at its length
COUNTED = "by_list_counted"
BY_NAME = ("by_list", "by_index", "by_number")
