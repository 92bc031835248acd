"""`rankup nodes` and `rankup history`: programs that exchange messages, and what their clients saw."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from grader.submission import BadRequest

history_app = typer.Typer(help="Check a history of what the clients of a store saw.", no_args_is_help=True)
nodes_app = typer.Typer(help="Run programs that speak Maelstrom's protocol.", no_args_is_help=True)

HISTORY = (
    'A history: one event per line, as JSON: {"process": 0, "type": "invoke", "f": "read", "value": null, "time": 5}, '
    "or as EDN, which Jepsen writes. type is invoke, ok, fail or info; f is read, write, cas or append. For the model "
    'kv, key is a field of its own. Of transactions, f is txn and value [["append", "x", 1], ["r", "y", [2]]].'
)


def _keep(history: Path | None, events: Iterable[Any], html: Path | None, page: Callable[[], str]) -> None:
    """Write the files that were asked for: the events as JSON lines, and the page."""
    if history is None and html is None:
        return
    from grader.classroom import running

    if history is not None:
        running.write_whole(history, "".join(json.dumps(event) + "\n" for event in events))
    if html is not None:
        running.write_whole(html, page())


@history_app.command("check")
def check_history(
    file: Annotated[Path, typer.Argument(help=HISTORY)],
    model: Annotated[str, typer.Option(help="register, cas-register, kv, txn-list-append or txn-rw-register.")],
    consistency: Annotated[
        str | None, typer.Option(help="linearizable (if left out) or sequential. Not for transactions.")
    ] = None,
    isolation: Annotated[
        str | None,
        typer.Option(
            help="For transactions: read-uncommitted, read-committed, snapshot-isolation, repeatable-read, "
            "serializable (if left out), strict-serializable, strong-snapshot-isolation, "
            "strong-session-snapshot-isolation or strong-session-serializable."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write an HTML file with a picture of the history.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Give up after this many search steps. Not for transactions.")
    ] = None,
    linearizable_keys: Annotated[
        bool,
        typer.Option(
            "--linearizable-keys",
            help="For txn-rw-register: assume that each key for itself is linearizable, to order more versions.",
        ),
    ] = False,
) -> int:
    """Check whether an order of operations or transactions explains a history.

    If none does, say why. The model says what the history is of: single operations on a register or a map, or
    transactions.
    """
    from grader.nodes.histories import models, report
    from grader.nodes.histories.transactions import report as of_transactions

    if html is not None and not html.parent.is_dir():
        raise BadRequest(f"{html}: no such folder: {html.parent}. Create it first")
    judged: report.Judged | of_transactions.JudgedFile
    if model in of_transactions.MODELS:
        for option, given in (("--consistency", consistency), ("--steps", steps)):
            if given is not None:
                raise BadRequest(f"{option} is not for the model {model}. Use --isolation")
        judged = of_transactions.judge(file, model, isolation, linearizable_keys)
        valid = judged.judged.valid
    else:
        if isolation is not None or linearizable_keys:
            models.find(model)  # a wrong name comes first
            raise BadRequest(f"--isolation and --linearizable-keys are not for the model {model}. Use --consistency")
        judged = report.judge(file, model, consistency or "linearizable", steps)
        valid = judged.checked.valid is True
    if html is not None:
        from grader.classroom import running

        running.write_whole(html, judged.page())
    if as_json:
        print(json.dumps(judged.to_json()))
    elif isinstance(judged, report.Judged):
        report.print_judged(judged)
    else:
        of_transactions.print_judged(judged)
    return 0 if valid else 1


@history_app.command("run")
def run_database(
    database: Annotated[
        str, typer.Option(help="sqlite: (a temporary file), sqlite:///FILE or postgresql://USER@HOST/DATABASE.")
    ] = "sqlite:",
    isolation: Annotated[
        str, typer.Option(help="The level that the transactions ask for, such as repeatable-read.")
    ] = "serializable",
    workload: Annotated[str, typer.Option(help="txn-list-append or txn-rw-register.")] = "txn-list-append",
    judged_as: Annotated[
        str, typer.Option(help="Judge the history at another level.", show_default="the one asked for")
    ] = "",
    clients: Annotated[int, typer.Option(help="How many clients, each with a connection of its own.")] = 5,
    transactions: Annotated[int, typer.Option(help="How many transactions, without the reads at the end.")] = 200,
    keys: Annotated[int, typer.Option(help="Keys that the transactions drawn at random use at a time.")] = 5,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed for what the clients do, and in which order.")] = None,
    history: Annotated[Path | None, typer.Option(help="Also write the history to this file, as JSON lines.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write an HTML file with what was found.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> int:
    """Run transactions of many clients on a real database, and judge their isolation.

    First, transactions cross on purpose: two read the same key before both write it, and so on. Their statements are
    sent one at a time, in the order in which a database without the right isolation must show an anomaly. Then come
    transactions drawn at random, at the same time on all clients. The table is removed at the end.
    """
    from grader.nodes import command as asked
    from grader.nodes import report as runs
    from grader.nodes.databases import page, report, run

    for path in (html, history):
        if path is not None:
            asked.check_writable(path)
    wanted = run.Wanted(database, isolation, workload, clients, transactions, keys, seed, judged_as)
    with runs.waiting(f"{transactions:,} transactions by {clients} clients"):
        result = run.play(wanted)
    _keep(history, result.events, html, lambda: page.html(result))
    if as_json:
        print(json.dumps(result.to_json()))
    else:
        report.show(result)
    return 0 if result.valid else 1


@nodes_app.command("run", context_settings={"allow_interspersed_args": False})
def run_nodes(
    workload: Annotated[
        str,
        typer.Option(
            help="echo, unique-ids, broadcast, g-set, g-counter, pn-counter, lin-kv, txn-list-append, "
            "txn-rw-register or kafka."
        ),
    ],
    nodes: Annotated[int, typer.Option(help="How many nodes. They are called n1, n2, ...")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="The command that each node runs, after --.", show_default=False),
    ] = None,
    nemesis: Annotated[
        str,
        typer.Option(
            help="Faults, separated by commas: partition, kill, kill-all, pause. Each partition is one of halves, "
            "isolate, bridge, ring and one-way, drawn at random. Name one of these five to get only that one."
        ),
    ] = "",
    nemesis_interval: Annotated[float, typer.Option(help="About how many seconds a fault lasts.")] = 2.0,
    rate: Annotated[float, typer.Option(help="Requests per second, over all clients.")] = 20.0,
    time_limit: Annotated[float, typer.Option(help="For how many seconds the clients send requests.")] = 10.0,
    latency: Annotated[float, typer.Option(help="Mean one-way latency in ms (exponentially distributed).")] = 0.0,
    drop: Annotated[float, typer.Option(help="Probability that a message between nodes is lost.")] = 0.0,
    duplicate: Annotated[float, typer.Option(help="Probability that a message between nodes arrives twice.")] = 0.0,
    topology: Annotated[str, typer.Option(help="Topology for broadcast: grid, line, tree or total.")] = "grid",
    isolation: Annotated[
        str,
        typer.Option(
            "--isolation", "--consistency-models", help="The level that transactions must keep: see history check."
        ),
    ] = "strict-serializable",
    key_count: Annotated[
        int | None, typer.Option(help="Keys in use at a time, for transactions (10) and kafka (4).", show_default=False)
    ] = None,
    max_txn_length: Annotated[int, typer.Option(help="Operations of the longest transaction.")] = 4,
    max_writes_per_key: Annotated[int, typer.Option(help="Writes after which a new key takes a key's place.")] = 16,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed for requests, faults and the network.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write an HTML file with a picture of the run.")] = None,
    history: Annotated[Path | None, typer.Option(help="Also write all requests to this file, as JSON lines.")] = None,
) -> int:
    """Run a program on each node of a cluster and judge it.

    Clients send requests while faults happen, and their answers are judged.

    The programs run directly on this machine, with your rights and without a sandbox. Run only code that you trust.
    Each node has a folder of its own, $NODE_DISK. The folder survives crashes of the node, but not the end of the run.
    At the end, rankup kills all programs.
    """
    from grader.nodes import command as asked
    from grader.nodes import page, report

    for path in (html, history):
        if path is not None:
            asked.check_writable(path)
    wanted = asked.Wanted(workload, nodes, command or (), nemesis, nemesis_interval, rate, time_limit, latency, drop,
                          duplicate, topology, seed, isolation, key_count, max_txn_length,
                          max_writes_per_key)  # fmt: skip
    with report.waiting(f"requests for {time_limit:g} s, then at most 10 s until all nodes agree"):
        outcome = asked.play(wanted)
    _keep(history, outcome.events, html, lambda: page.html(outcome))
    if as_json:
        print(json.dumps(outcome.to_json()))
    else:
        report.show(outcome)
    return 0 if outcome.right else 1
