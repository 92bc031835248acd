"""One training job, written for two schedulers: a JobSet that Kueue admits, and an sbatch file for Slurm.

    python same_job_twice.py [NODES [HOURS]]

Prints both, checks each against what its manual allows for the fields that are used, and then runs both start commands
with a `torchrun` that only says how it was called: all nodes must be told the same. Neither cluster is needed.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml


@dataclass(frozen=True)
class Job:
    """A gang of nodes with 8 GPUs each, for at most so many hours."""

    name: str = "llm"
    team: str = "team-a"
    nodes: int = 4
    hours: int = 12
    script: str = "train.py"


def torchrun(job: Job, head: str, rank: str, run: str) -> str:
    """What each node runs. `head` and `rank` may be words of the shell."""
    return (
        f"torchrun --nnodes {job.nodes} --nproc-per-node 8 --node-rank {rank} --rdzv-backend c10d "
        f"--rdzv-endpoint {head}:29500 --rdzv-id {run} --max-restarts 3 {job.script}"
    )


def jobset(job: Job) -> dict[str, Any]:
    """A JobSet of one indexed Job, a pod for each node. Kueue starts it as a gang, in one rack."""
    head = f"{job.name}-workers-0-0.{job.name}"  # JobSet's name of the first pod, in the subdomain of the set
    container = {
        "name": "trainer",
        "image": "registry.example/trainer:1",
        "command": ["sh", "-c", torchrun(job, head, "$JOB_COMPLETION_INDEX", job.name)],
        "resources": {"limits": {"nvidia.com/gpu": 8}},
    }
    rack = {"kueue.x-k8s.io/podset-required-topology": "cloud.provider.com/topology-rack"}
    pods = {"metadata": {"annotations": rack}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    work = {"parallelism": job.nodes, "completions": job.nodes, "completionMode": "Indexed", "backoffLimit": 0,
            "activeDeadlineSeconds": job.hours * 3600, "template": pods}  # fmt: skip
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": job.name, "labels": {"kueue.x-k8s.io/queue-name": job.team}},
        "spec": {
            "suspend": True,  # until Kueue has nodes for all
            "failurePolicy": {"maxRestarts": 3},  # all pods together
            "network": {"enableDNSHostnames": True},
            "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": work}}],
        },
    }


def sbatch(job: Job) -> str:
    """The same for Slurm, which starts every allocation whole."""
    options = {"job-name": job.name, "account": job.team, "nodes": job.nodes, "ntasks-per-node": 1, "gpus-per-node": 8,
               "time": f"{job.hours}:00:00", "switches": "1@00:10:00", "requeue": None}  # fmt: skip
    lines = [f"#SBATCH --{name}" + ("" if value is None else f"={value}") for name, value in options.items()]
    head = 'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)'
    command = torchrun(job, "$head", "$SLURM_NODEID", "$SLURM_JOB_ID")
    return "\n".join(["#!/bin/bash", *lines, "set -euo pipefail", head, "export head", f"srun bash -c '{command}'", ""])


def thing(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """A schema of an object with these fields and no other."""
    known = {**required, **optional}
    return {"type": "object", "properties": known, "required": list(required), "additionalProperties": False}


TEXT, COUNT, WORDS = {"type": "string"}, {"type": "integer", "minimum": 0}, {"additionalProperties": {"type": "string"}}
NAME = {"type": "string", "pattern": r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"}
POD = thing(
    {
        "restartPolicy": {"enum": ["Never", "OnFailure"]},
        "containers": {
            "type": "array",
            "items": thing({"name": NAME, "image": TEXT}, command={"type": "array", "items": TEXT},
                           resources=thing({}, limits={"additionalProperties": COUNT})),
        },
    }
)  # fmt: skip
PODS = thing({"spec": POD}, metadata=thing({}, annotations=WORDS))
MODE = {"enum": ["Indexed", "NonIndexed"]}
WORK = thing({"template": PODS}, parallelism=COUNT, completions=COUNT, completionMode=MODE, backoffLimit=COUNT,
             activeDeadlineSeconds=COUNT)  # fmt: skip
JOBSET = thing(  # the fields used here, of jobset.x-k8s.io/v1alpha2 and of batch/v1's Job
    {
        "apiVersion": {"const": "jobset.x-k8s.io/v1alpha2"},
        "kind": {"const": "JobSet"},
        "metadata": thing({"name": NAME}, labels=WORDS),
        "spec": thing(
            {"replicatedJobs": {"type": "array", "minItems": 1,
                                "items": thing({"name": NAME, "template": thing({"spec": WORK})}, replicas=COUNT)}},
            suspend={"type": "boolean"}, failurePolicy=thing({}, maxRestarts=COUNT),
            network=thing({}, enableDNSHostnames={"type": "boolean"}, subdomain=NAME),
        ),
    }
)  # fmt: skip
SBATCH = {  # of sbatch's manual, the options used here
    "job-name": r"\S+", "account": r"\S+", "nodes": r"\d+(-\d+)?", "ntasks-per-node": r"\d+", "gpus-per-node": r"\d+",
    "time": r"(\d+-)?\d+:\d\d:\d\d", "switches": r"\d+(@[\d:-]+)?", "requeue": "",
}  # fmt: skip


def check(job: Job, manifest: dict[str, Any], script: str) -> None:
    """Raises an error that says which field is wrong."""
    jsonschema.validate(manifest, JOBSET)
    assert manifest["metadata"]["labels"].get("kueue.x-k8s.io/queue-name"), "without a queue Kueue does not see it"
    for name, _, value in re.findall(r"^#SBATCH --([a-z-]+)(=(.*))?$", script, re.M):
        assert name in SBATCH, f"sbatch has no option --{name}"
        assert re.fullmatch(SBATCH[name], value), f"--{name}={value}"
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def started(job: Job, manifest: dict[str, Any], script: str) -> list[list[list[str]]]:
    """How torchrun is called on each node, by both."""
    work = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]
    command = work["template"]["spec"]["containers"][0]["command"]
    with tempfile.TemporaryDirectory() as folder:
        fakes = {
            "torchrun": 'printf "%s\\n" "$*"',
            "scontrol": f"seq -f {job.name}-workers-0-%g.{job.name} 0 {job.nodes - 1}",  # the nodes, called as the pods
            "srun": f'for SLURM_NODEID in $(seq 0 {job.nodes - 1}); do export SLURM_NODEID; "$@"; done',
        }
        for name, body in fakes.items():
            Path(folder, name).write_text(f"#!/bin/bash\n{body}\n")
            Path(folder, name).chmod(0o755)
        env = {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "x", "SLURM_JOB_ID": job.name}

        def run(words: list[str], **more: str) -> list[str]:
            done = subprocess.run(words, env={**env, **more}, capture_output=True, text=True, check=True)
            return done.stdout.splitlines()

        pods = [line for rank in range(job.nodes) for line in run(command, JOB_COMPLETION_INDEX=str(rank))]
        tasks = run(["bash", "-c", script])
    return [[line.split() for line in lines] for lines in (pods, tasks)]


def usage() -> int:
    print("same_job_twice: NODES and HOURS are whole numbers from 1 to 9999, such as: 4 12", file=sys.stderr)
    return 2


def main() -> None:
    if len(sys.argv) > 3 or not all(re.fullmatch(r"[1-9]\d{0,3}", word) for word in sys.argv[1:]):
        sys.exit(usage())
    job = Job(**dict(zip(("nodes", "hours"), map(int, sys.argv[1:]), strict=False)))
    manifest, script = jobset(job), sbatch(job)
    check(job, manifest, script)
    pods, tasks = started(job, manifest, script)
    assert pods == tasks, f"the two start different programs: {pods} {tasks}"
    print(yaml.safe_dump(manifest, sort_keys=False))
    print(script)
    print(json.dumps({"nodes": len(pods), "ranks": 8 * len(pods), "first": " ".join(pods[0])}))


if __name__ == "__main__":
    main()
