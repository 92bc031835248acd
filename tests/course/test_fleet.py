"""Replicas behind a balancer, and manifests."""

from __future__ import annotations

import pytest

from courselib import manifest
from courselib.fleet import BROKEN, OK, REFUSED, SHED, Fleet, serve


def test_clients_see_errors_until_the_balancer_knows() -> None:
    run = serve(Fleet(), load=40, kill=5.3)
    assert run.out == 7  # the probes at 6 and 7 s fail
    assert run.until <= run.out - run.killed
    assert run.errors[BROKEN] <= 16
    refused = [each for each in run.seen if each.how == REFUSED]
    assert all(5.3 <= each.came < 7 for each in refused)
    during = [each for each in run.seen if 5.3 <= each.came < 7]
    assert len(refused) == pytest.approx(len(during) / 2, abs=1)


def test_a_retry_hides_the_death_and_shedding_keeps_the_others_quick() -> None:
    retried, shedding = serve(Fleet(retries=1), 40, 5.3), serve(Fleet(retries=1, queue=8), 40, 5.3)
    assert not retried.errors
    assert set(shedding.errors) == {SHED}
    assert shedding.latency(0.99, 7, 25) < 1.5 < retried.latency(0.99, 7, 25)


def test_who_is_ready_too_early_is_asked_too_early() -> None:
    run = serve(Fleet(ready_early=10), 40, 5.3)
    assert run.back == pytest.approx(15.3)
    assert run.until > 19


def test_every_request_ends_once_and_the_run_can_be_drawn() -> None:
    run = serve(Fleet(replicas=3, retries=1), 60, 5.3)
    assert [each.came for each in run.seen] == sorted(each.came for each in run.seen)
    assert {each.how for each in run.seen} == {OK}
    assert "dead or loading" in run.picture("a title", until=30).svg


GOOD = """
spec:
  template:
    spec:
      terminationGracePeriodSeconds: 90
      containers:
      - startupProbe: {httpGet: {path: /health}, periodSeconds: 10, failureThreshold: 30}
        livenessProbe: {httpGet: {path: /health}, periodSeconds: 5}
        readinessProbe: {httpGet: {path: /ready}}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", []),
        ("/ready", "/health", ["same path"]),
        ("startupProbe", "lifecycle", ["kills the container after 15 s"]),
        ("failureThreshold: 30", "failureThreshold: 3", ["gives up after 30 s"]),
        ("        readinessProbe: {httpGet: {path: /ready}}\n", "", ["no readiness probe"]),
        ("      terminationGracePeriodSeconds: 90\n", "", ["has 30 s"]),
    ],
)  # fmt: skip
def test_a_manifest_is_told_what_is_wrong(old: str, new: str, said: list[str]) -> None:
    found = manifest.problems(GOOD.replace(old, new, 1), loading=180, longest_answer=60)
    assert len(found) == len(said)
    assert all(words in each for words, each in zip(said, found, strict=True))


def test_a_text_without_a_pod_is_no_manifest() -> None:
    with pytest.raises(ValueError, match=r"spec\.template\.spec"):
        manifest.problems("kind: Service", 1, 1)
