import torch
import torch.distributed as dist


class TopKAllReduce:
    def __init__(self, ratio):
        self.ratio = ratio
        self.residuals = {}

    def __call__(self, name, grad):
        n = dist.get_world_size()
        total = grad.reshape(-1).clone()
        if name in self.residuals:
            total += self.residuals[name]
        k = max(1, int(self.ratio * total.numel()))
        places = total.abs().topk(k).indices
        values = total[places]
        total[places] = 0.0
        self.residuals[name] = total
        all_values = [torch.empty_like(values) for _ in range(n)]
        all_places = [torch.empty(k, dtype=torch.int32) for _ in range(n)]
        dist.all_gather(all_values, values)
        dist.all_gather(all_places, places.to(torch.int32))
        mean = torch.zeros_like(total)
        for theirs, where in zip(all_values, all_places, strict=True):
            mean.index_add_(0, where, theirs)
        return (mean / n).view(grad.shape)
