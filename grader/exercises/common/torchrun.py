"""What exercises share whose scripts run under torchrun."""

IMPORTED = (  # by the process from which agents and workers are forked; it takes seconds
    "torch._dynamo",
    "torch.optim",
    "torch.utils.data",
    "torch.nn.parallel",
    "torch.distributed.launcher.api",
    "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend",
    "torch.distributed.run",
)
