"""The lab that writes a job for Kueue and for Slurm: both start the same on every node; a wrong field is refused."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from types import ModuleType

import jsonschema
import pytest
from labs import FOLDER, run_or_skip
from often import often


@pytest.fixture(scope="module")
def lab() -> ModuleType:
    spec = importlib.util.spec_from_file_location("same_job_twice", FOLDER / "same_job_twice.py")
    assert spec
    assert spec.loader
    module = sys.modules["same_job_twice"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_start_the_same_program_on_each_node() -> None:
    *_, last = run_or_skip(FOLDER / "same_job_twice.py", "3", "5").splitlines()
    told = json.loads(last)
    assert (told["nodes"], told["ranks"]) == (3, 24)
    assert "--nnodes 3 --nproc-per-node 8 --node-rank 0" in told["first"]


@pytest.mark.parametrize("where", ["restart", "queue", "replicas"])
def test_a_wrong_manifest_is_refused(lab: ModuleType, where: str) -> None:
    job = lab.Job()
    manifest = lab.jobset(job)
    if where == "restart":
        manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    if where == "queue":
        del manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    if where == "replicas":
        manifest["spec"]["replicas"] = 4  # belongs to the replicated job
    with pytest.raises((jsonschema.ValidationError, AssertionError)):
        lab.check(job, manifest, lab.sbatch(job))


WRONG = [("nodes=4", "nodes=four"), ("--requeue", "--restart"), ("srun bash", "srun 'bash")]


@pytest.mark.parametrize(("right", "wrong"), WRONG)
def test_a_wrong_sbatch_file_is_refused(lab: ModuleType, right: str, wrong: str) -> None:
    job = lab.Job()
    with pytest.raises((AssertionError, subprocess.CalledProcessError)):
        lab.check(job, lab.jobset(job), lab.sbatch(job).replace(right, wrong))


@pytest.mark.parametrize("given", often(("x", "0", "-3", "2 0", "1 2 3"), "x"))
def test_a_number_of_nodes_that_is_none_is_one_sentence(given: str) -> None:
    command = [sys.executable, FOLDER / "same_job_twice.py", *given.split()]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
