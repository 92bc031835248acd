"""A Kubernetes manifest of a model server, checked for what kills it or sends requests too early.

problems(text, loading=180, longest_answer=60)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

_DEFAULTS = {"periodSeconds": 10, "failureThreshold": 3, "initialDelaySeconds": 0}  # Kubernetes, probe v1


def problems(text: str, loading: float, longest_answer: float) -> list[str]:
    """What is wrong with the first container's probes and its end; `loading` is how long the weights take in seconds.

    Raises ValueError where the text has no pod template.
    """
    pod = _pod(yaml.safe_load(text))
    return [*_probes(pod["containers"][0], loading), *_end(pod, longest_answer)]


def _pod(manifest: Any) -> dict[str, Any]:
    try:
        pod: dict[str, Any] = manifest["spec"]["template"]["spec"]
    except (KeyError, TypeError):
        raise ValueError("the manifest has no spec.template.spec") from None
    return pod


def patience(probe: dict[str, Any]) -> float:
    """Seconds from the start until so many failures in a row have consequences."""
    wait, period, failures = (probe.get(name, _DEFAULTS[name]) for name in
                              ("initialDelaySeconds", "periodSeconds", "failureThreshold"))  # fmt: skip
    return float(wait + period * failures)


def _path(probe: dict[str, Any]) -> str:
    return str(probe.get("httpGet", {}).get("path", ""))


def _probes(container: dict[str, Any], loading: float) -> Iterator[str]:
    startup, live, ready = (container.get(f"{name}Probe") for name in ("startup", "liveness", "readiness"))
    if ready is None:
        yield "There is no readiness probe. Requests come as soon as the process runs, before the weights are loaded."
    if live is not None and startup is None and patience(live) < loading:
        yield (
            f"The liveness probe kills the container after {patience(live):g} s without an answer. Loading takes "
            f"{loading:g} s. Add a startup probe that waits longer."
        )
    if startup is not None and patience(startup) < loading:
        yield f"The startup probe gives up after {patience(startup):g} s. Loading takes {loading:g} s."
    if live is not None and ready is not None and _path(live) == _path(ready):
        yield (
            f"Liveness and readiness ask the same path, {_path(live)}. A replica that is only not ready yet is killed."
        )


def _end(pod: dict[str, Any], longest_answer: float) -> Iterator[str]:
    grace = pod.get("terminationGracePeriodSeconds", 30)
    if grace < longest_answer:
        yield (
            f"After SIGTERM the container has {grace:g} s, and the longest answer takes {longest_answer:g} s. Raise "
            "terminationGracePeriodSeconds."
        )
