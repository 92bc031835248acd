"""The scales, skipped steps and parameters that are expected are those of torch's own scaler, on one rank."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from grader.registry import find
from grader.worlds.cases import Case

CASES = [case for case in find("grad_scaler").world.drawn(1) if case.ranks == 1 and case.by == "train"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_torchs_scaler_does_the_same(case: Case) -> None:
    work, right = case.expected
    parameter = torch.nn.Parameter(torch.from_numpy(work.starts[0].copy()))
    optimizer = torch.optim.SGD([parameter], lr=work.rate, momentum=work.momentum)
    scaler = torch.amp.GradScaler("cpu", **vars(work.settings))
    for step, how in enumerate(work.how):
        assert scaler.scale(torch.tensor(1.0)).item() == pytest.approx(right.scales[step], rel=1e-6)
        optimizer.zero_grad()
        scaler.scale((parameter * torch.from_numpy(work.gradients[0][step])).sum()).backward()
        assert parameter.grad is not None
        for place, what in work.poison[0][step]:
            parameter.grad[place] = float(what)
        if how != "step":
            scaler.unscale_(optimizer)
        if how == "clip":
            torch.nn.utils.clip_grad_norm_([parameter], 1.0)
        if how == "value":
            torch.nn.utils.clip_grad_value_([parameter], 1.0)
        scaler.step(optimizer)
        scaler.update()
        np.testing.assert_allclose(parameter.detach().numpy(), right.parameters[step][0], rtol=1e-4, atol=1e-5)
    assert scaler.get_scale() == pytest.approx(right.scales[-1], rel=1e-6)
