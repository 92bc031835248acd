"""What the API server refuses in a Pod, for the part of it that a server's manifest uses: with sentences.

Fields, limits and defaults are those of the Kubernetes API reference, Pod v1 core. Fields that the API knows and that are
of no interest here are accepted unread; any other name is refused, as by `kubectl apply --validate=strict`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from typing import Any

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([a-z0-9]|-(?!-)){0,13}[a-z0-9]|[a-z]")
QUANTITY = re.compile(r"[+-]?(\d+|\d+\.\d*|\.\d+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")
_POD = "apiVersion kind metadata spec status"
_METADATA = (
    "name generateName namespace labels annotations finalizers ownerReferences uid resourceVersion generation "
    "creationTimestamp deletionTimestamp deletionGracePeriodSeconds selfLink managedFields"
)
_SPEC = (
    "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks "
    "ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets "
    "initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates "
    "resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates securityContext "
    "serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain "
    "terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef schedulingGroup"
)
_CONTAINER = (
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy "
    "resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath "
    "terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
)
_PROBE = (
    "exec failureThreshold grpc httpGet initialDelaySeconds periodSeconds successThreshold tcpSocket "
    "terminationGracePeriodSeconds timeoutSeconds"
)
_GET, _PORTS = "host httpHeaders path port scheme", "containerPort hostIP hostPort name protocol"
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def problems(pod: Any, image: str, port: int) -> list[str]:
    """What is wrong with a manifest, one sentence each, and that it is one for this image and this port."""
    return list(_pod(pod, image, port))


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


_KINDS: dict[type, str] = {
    dict: "a mapping",
    list: "a list",
    str: "a string",
    int: "a whole number",
    bool: "true or false",
}


def _said(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fields(value: Any, where: str, known: str, needed: str = "") -> Iterator[str]:
    """A mapping, with fields of these names only."""
    if not isinstance(value, dict):
        yield f"{where} is {_said(value)}. It must be a mapping."
        return
    names = known.split()
    for name in value:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, 1, 0.75)
            hint = (
                f"Did you mean {near[0]}?" if near else f"Its fields are {', '.join(names)}." if len(names) < 12 else ""
            )
            yield f"{where} has no field {_said(name)}. {hint or 'Look at the API reference of Pod for where that field belongs.'}"
    for name in needed.split():
        if value.get(name) is None:
            yield f"{where} has no {name}, which a Pod needs."


def _typed(value: dict[str, Any], where: str, name: str, kind: type, least: int | None = None) -> Iterator[str]:
    """A field, where it is there, is of a kind, and not below its least."""
    found = value.get(name)
    if found is None:
        return
    if not _is(found, kind):
        yield f"{where}.{name} is {_said(found)}. It must be {_KINDS[kind]}."
    elif least is not None and found < least:
        yield f"{where}.{name} is {found}. It must be at least {least}."


def _matches(
    value: dict[str, Any], where: str, name: str, pattern: re.Pattern[str], most: int, words: str
) -> Iterator[str]:
    found = value.get(name)
    if found is not None and not (isinstance(found, str) and len(found) <= most and pattern.fullmatch(found)):
        yield f"{where}.{name} is {_said(found)}. {words}"


NAME = "A name has only a-z, 0-9 and -, at most 63 characters, and begins and ends with a letter or digit."


def _pod(pod: Any, image: str, port: int) -> Iterator[str]:
    if not isinstance(pod, dict):
        yield f"The manifest is {_said(pod)}. It must be a mapping."
        return
    yield from _fields(pod, "the manifest", _POD, "apiVersion kind metadata spec")
    for name, wanted in (("apiVersion", "v1"), ("kind", "Pod")):
        if pod.get(name) is not None and pod[name] != wanted:
            yield f"{name} is {_said(pod[name])}. A Pod has {name}: {wanted}."
    metadata, spec = pod.get("metadata"), pod.get("spec")
    if metadata is not None:
        yield from _fields(
            metadata,
            "metadata",
            _METADATA,
            "" if isinstance(metadata, dict) and metadata.get("generateName") else "name",
        )
    if isinstance(metadata, dict):
        yield from _matches(
            metadata, "metadata", "name", SUBDOMAIN, 253, NAME.replace("63", "253").replace("and -", "- and .")
        )
        for name in ("labels", "annotations"):
            yield from _texts(metadata, "metadata", name)
    if spec is not None:
        yield from _fields(spec, "spec", _SPEC, "containers")
    if isinstance(spec, dict):
        yield from _spec(spec, image, port)


def _texts(value: dict[str, Any], where: str, name: str) -> Iterator[str]:
    found = value.get(name)
    if found is not None and not (isinstance(found, dict) and all(isinstance(each, str) for each in found.values())):
        yield f"{where}.{name} is {_said(found)}. It must map strings to strings."


def _spec(spec: dict[str, Any], image: str, port: int) -> Iterator[str]:
    yield from _typed(spec, "spec", "terminationGracePeriodSeconds", int, 0)
    policy = spec.get("restartPolicy", "Always")
    if policy not in ("Always", "OnFailure", "Never"):
        yield f"spec.restartPolicy is {_said(policy)}. It is Always, OnFailure or Never."
    containers = spec.get("containers")
    if containers is None:
        return
    if not isinstance(containers, list) or not containers:
        yield f"spec.containers is {_said(containers)}. It must be a list with at least one container."
        return
    for number, container in enumerate(containers):
        yield from _container(container, f"spec.containers[{number}]")
    maps = [each for each in containers if isinstance(each, dict)]
    names = [each.get("name") for each in maps if isinstance(each.get("name"), str)]
    if len(set(names)) < len(names):
        yield "Two containers have the same name."
    ours = [each for each in maps if each.get("image") == image]
    if len(ours) != 1:
        yield f"{len(ours) or 'No'} containers have the image {image}. One container must have it: pod() was called with it."
    elif not any(
        isinstance(each, dict) and each.get("containerPort") == port for each in _listed(ours[0].get("ports"))
    ):
        yield f"The container has no containerPort {port}. pod() was called with port={port}, at which serve_replica() listens."


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _container(container: Any, where: str) -> Iterator[str]:
    yield from _fields(container, where, _CONTAINER, "name image")
    if not isinstance(container, dict):
        return
    yield from _matches(container, where, "name", LABEL, 63, NAME)
    yield from _typed(container, where, "image", str)
    for name in ("command", "args"):
        found = container.get(name)
        if found is not None and not (isinstance(found, list) and all(isinstance(each, str) for each in found)):
            yield f"{where}.{name} is {_said(found)}. It must be a list of strings."
    yield from _typed(container, where, "ports", list)
    for number, each in enumerate(_listed(container.get("ports"))):
        yield from _port(each, f"{where}.ports[{number}]")
    for name in PROBES:
        if container.get(name) is not None:
            yield from _probe(container[name], f"{where}.{name}", name)
    if container.get("lifecycle") is not None:
        yield from _lifecycle(container["lifecycle"], f"{where}.lifecycle")
    if container.get("resources") is not None:
        yield from _resources(container["resources"], f"{where}.resources")


def _port(told: Any, where: str) -> Iterator[str]:
    yield from _fields(told, where, _PORTS, "containerPort")
    if not isinstance(told, dict):
        return
    yield from _number(told, where, "containerPort")
    yield from _matches(
        told,
        where,
        "name",
        PORT_NAME,
        15,
        "A port's name has at most 15 characters: a-z, 0-9 and -, one letter at least.",
    )
    if told.get("protocol", "TCP") not in ("TCP", "UDP", "SCTP"):
        yield f"{where}.protocol is {_said(told['protocol'])}. It is TCP, UDP or SCTP."


def _number(told: dict[str, Any], where: str, name: str) -> Iterator[str]:
    found = told.get(name)
    if found is not None and not (_is(found, int) and 0 < found < 65536):
        yield f"{where}.{name} is {_said(found)}. A port is a whole number from 1 to 65535."


def _probe(probe: Any, where: str, name: str) -> Iterator[str]:
    yield from _fields(probe, where, _PROBE)
    if not isinstance(probe, dict):
        return
    if "httpGet" not in probe or any(other in probe for other in ("exec", "grpc", "tcpSocket")):
        yield f"{where} asks by {_said([each for each in ('exec', 'grpc', 'httpGet', 'tcpSocket') if each in probe])}. Use httpGet, and nothing else."
    elif isinstance(probe["httpGet"], dict):
        get = probe["httpGet"]
        yield from _fields(get, f"{where}.httpGet", _GET, "port")
        path = get.get("path", "/")
        if not (isinstance(path, str) and path.startswith("/")):
            yield f"{where}.httpGet.path is {_said(path)}. A path begins with a slash."
        if isinstance(get.get("port"), str):
            yield from _matches(
                get,
                f"{where}.httpGet",
                "port",
                PORT_NAME,
                15,
                "It is a number, or the name of one of the container's ports.",
            )
        else:
            yield from _number(get, f"{where}.httpGet", "port")
        if get.get("scheme", "HTTP") not in ("HTTP", "HTTPS"):
            yield f"{where}.httpGet.scheme is {_said(get['scheme'])}. It is HTTP or HTTPS."
    else:
        yield f"{where}.httpGet is {_said(probe['httpGet'])}. It must be a mapping."
    least = {
        "initialDelaySeconds": 0,
        "periodSeconds": 1,
        "timeoutSeconds": 1,
        "failureThreshold": 1,
        "successThreshold": 1,
    }
    for field, bound in least.items():
        yield from _typed(probe, where, field, int, bound)
    if name != "readinessProbe" and _is(probe.get("successThreshold", 1), int) and probe.get("successThreshold", 1) > 1:
        yield f"{where}.successThreshold is {probe['successThreshold']}. Of a {name} it must be 1."


def _lifecycle(told: Any, where: str) -> Iterator[str]:
    yield from _fields(told, where, "postStart preStop stopSignal")
    for name in ("postStart", "preStop"):
        hook = told.get(name) if isinstance(told, dict) else None
        if hook is None:
            continue
        yield from _fields(hook, f"{where}.{name}", "exec httpGet sleep tcpSocket")
        if not isinstance(hook, dict):
            continue
        if len(hook) != 1:
            yield f"{where}.{name} has {len(hook)} actions. It must have one."
        checks: dict[str, Callable[[], Iterator[str]]] = {
            "sleep": lambda hook=hook, at=f"{where}.{name}.sleep": _sleep(hook["sleep"], at),  # type: ignore[misc]
            "exec": lambda hook=hook, at=f"{where}.{name}.exec": _exec(hook["exec"], at),  # type: ignore[misc]
        }
        for action, check in checks.items():
            if action in hook:
                yield from check()


def _sleep(told: Any, where: str) -> Iterator[str]:
    yield from _fields(told, where, "seconds", "seconds")
    if isinstance(told, dict):
        yield from _typed(told, where, "seconds", int, 0)


def _exec(told: Any, where: str) -> Iterator[str]:
    yield from _fields(told, where, "command", "command")
    command = told.get("command") if isinstance(told, dict) else None
    if command is not None and not (isinstance(command, list) and all(isinstance(each, str) for each in command)):
        yield f"{where}.command is {_said(command)}. It must be a list of strings, one for each word."


def _resources(told: Any, where: str) -> Iterator[str]:
    yield from _fields(told, where, "claims limits requests")
    for name in ("limits", "requests"):
        found = told.get(name) if isinstance(told, dict) else None
        for what, amount in found.items() if isinstance(found, dict) else ():
            if not (_is(amount, int) or (isinstance(amount, str) and QUANTITY.fullmatch(amount))):
                yield f"{where}.{name}.{what} is {_said(amount)}. It must be a quantity, such as 500m or 2Gi."
