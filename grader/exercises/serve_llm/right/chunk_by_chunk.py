"""One list of requests in order of submission. Blocks are taken chunk by chunk; prefixes are found by comparing prompts."""

from dataclasses import dataclass, field

from grader.serving import Chunk


@dataclass
class Job:
    id: object
    text: list
    prompt: int
    limit: int
    table: list = field(default_factory=list)
    done: int = 0
    mine: int = 0  # the first of its blocks that it computed itself
    active: bool = False


class Engine:
    def __init__(self, model, blocks, block_size, max_tokens_per_step):
        self.model, self.bs, self.budget = model, block_size, max_tokens_per_step
        self.count = dict.fromkeys(range(blocks), 0)
        self.jobs = []

    def submit(self, request_id, prompt, max_new_tokens):
        self.jobs.append(Job(request_id, list(prompt), len(prompt), len(prompt) + max_new_tokens))

    def cancel(self, request_id):
        for job in self.jobs:
            if job.id == request_id:
                self.drop(job)
                self.jobs.remove(job)
                return

    def available(self):
        return [block for block, count in self.count.items() if count == 0]

    def drop(self, job):
        for block in job.table:
            self.count[block] -= 1
        job.table, job.done, job.active = [], 0, False

    def grow(self, job, tokens):
        """Blocks for so many more tokens, as far as there are any. How many tokens fit?"""
        available = self.available()
        while len(job.table) * self.bs < job.done + tokens and available:
            block = available.pop(0)
            self.count[block] = 1
            job.table.append(block)
        return min(tokens, len(job.table) * self.bs - job.done)

    def share(self, job):
        best = []
        for other in self.jobs:
            if other is job:
                break
            same = 0
            for a, b in zip(job.text[: job.prompt], other.text[: other.done]):
                if a != b:
                    break
                same += 1
            whole = min(same, len(job.text) - 1) // self.bs
            if whole > len(best):
                best = other.table[:whole]
        for block in best:
            self.count[block] += 1
        job.table, job.done = list(best), len(best) * self.bs

    def step(self):
        batch, budget = [], self.budget
        for job in list(self.jobs):
            if job.active and job.done == len(job.text) - 1:
                while job.active and not self.grow(job, 1):
                    self.drop([each for each in self.jobs if each.active][-1])
                if job.active:
                    batch.append((job, 1))
                    budget -= 1
        planned = [job for job, _ in batch]
        for job in self.jobs:
            if job in planned:
                continue
            if budget <= 0:
                break
            if not job.active:
                self.share(job)
            wanted = min(budget, len(job.text) - job.done)
            fits = self.grow(job, wanted)
            job.active = bool(job.table)
            if fits:
                batch.append((job, fits))
                budget -= fits
            if fits < wanted:
                break
        if not batch:
            return {}
        rows = self.model.forward([Chunk(job.text[job.done :][:n], job.done, list(job.table)) for job, n in batch])
        out = {}
        for (job, n), row in zip(batch, rows):
            job.done += n
            if job.done < len(job.text):
                continue
            token = int(row.argmax())
            job.text.append(token)
            out[job.id] = [token]
            if token == self.model.eos or len(job.text) == job.limit:
                self.drop(job)
                self.jobs.remove(job)
        return out
