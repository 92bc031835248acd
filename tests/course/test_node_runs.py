"""Clusters in a chapter: what is run there is drawn, tabled and searched."""

from __future__ import annotations

from courselib.cluster import cluster, crash, explore, partition
from tests.nodes.clusters import Echo, Gossip, Vote


def test_a_run_shows_its_answers_and_its_picture() -> None:
    asks = {"c1": [("n1", {"type": "echo"}), ("n2", {"type": "echo"}, 1.0)]}
    run = cluster(Echo, asks=asks, faults=[crash(0.5, 9.0, "n2")], until=8.0)
    lines = run.answers.text.splitlines()
    assert len(lines) == 4
    assert "echo_ok had 1, lives 1" in lines[2]
    assert "no answer" in lines[3]
    assert run.answer("c1", 0) == {"type": "echo_ok", "had": 1, "lives": 1, "in_reply_to": 1}
    assert "<svg" in run._repr_html_()
    assert run.messages == 0


def test_a_partition_by_names() -> None:
    run = cluster({"Gossip": Gossip}, 3, faults=[partition(0.0, 3.0, "n1", "n2 n3")], until=3.0)
    crossing = [sent for sent in run.story.sent if "n1" in (sent.src, sent.dst)]
    assert crossing
    assert all(sent.fate == "cut" for sent in crossing)


def test_a_search_shows_its_shortest_counterexample() -> None:
    asks = {"c1": [("n1", {"type": "elect", "name": "a"})], "c2": [("n2", {"type": "elect", "name": "b"})]}
    found = explore(Vote, 3, asks, lambda view: len({a["name"] for *_, a in view.history if a}) > 1 or None,
                    crashes=1, forgets=True)  # fmt: skip
    assert found.problem
    assert found.steps == 12
    assert "<svg" in found.picture("Elected twice")._repr_html_()
