"""CP asks again and again those who have not answered; one request at a time and node, the others queue. AP floods news,
and remembers for each peer what it still has to confirm."""

from collections import deque

from grader.nodes import Node


class Store(Node):
    mode = "CP"

    def on_start(self):
        self.queue = deque()
        self.job = None
        self.round = 0
        self.copies = [*self.disk.get("copies", [])]  # [key, counter, writer, value]
        self.due = {peer: [row[:3] for row in self.copies] for peer in self.peers}
        self.set_timer("tick", 0.2)

    def row(self, key):
        for row in self.copies:
            if row[0] == key:
                return row
        return [key, 0, "", None]

    def put(self, new):
        old = self.row(new[0])
        if new[1:3] <= old[1:3]:
            return False
        self.copies = [row for row in self.copies if row[0] != new[0]] + [new]
        self.disk["copies"] = self.copies
        return True

    def on_message(self, src, body):
        if body["type"] in ("read", "write"):
            if self.mode == "AP":
                self.answer(body)
            else:
                self.queue.append((self.now(), body))
                self.next()
        elif body["type"] == "ask":
            if body["row"][2]:
                self.put(body["row"])
            self.send(src, {"type": "told", "round": body["round"], "row": self.row(body["row"][0])})
        elif body["type"] == "told":
            self.told(src, body)
        elif body["type"] == "news":
            for row in body["rows"]:
                if self.put(row):
                    for peer in self.peers:
                        if peer != src:
                            self.due[peer].append(row[:3])
            self.send(src, {"type": "got", "rows": [row[:3] for row in body["rows"]]})
        elif body["type"] == "got":
            self.due[src] = [one for one in self.due[src] if one not in body["rows"]]

    # ---- AP

    def answer(self, body):
        _, counter, _, value = self.row(body["key"])
        if body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": value})
            return
        self.put([body["key"], counter + 1, self.id, body["value"]])
        for peer in self.peers:
            self.due[peer].append([body["key"], counter + 1, self.id])
        self.reply(body, {"type": "write_ok"})

    # ---- CP

    def next(self):
        if self.job is None and self.queue:
            since, request = self.queue.popleft()
            self.job = {"since": since, "request": request, "phase": "ask"}
            self.phase([request["key"], 0, "", None])

    def phase(self, row):
        self.round += 1
        self.job.update(row=row, answers={self.id: self.row(row[0])})
        self.ask()

    def ask(self):
        for peer in self.peers:
            if peer not in self.job["answers"]:
                self.send(peer, {"type": "ask", "round": self.round, "row": self.job["row"]})

    def told(self, src, body):
        if self.job is None or body["round"] != self.round:
            return
        self.job["answers"][src] = body["row"]
        if 2 * len(self.job["answers"]) <= len(self.peers) + 1:
            return
        request = self.job["request"]
        if self.job["phase"] == "ask":
            key, counter, writer, value = max(self.job["answers"].values(), key=lambda row: row[1:3])
            if request["type"] == "write":
                counter, writer, value = counter + 1, self.id, request["value"]
            self.put([key, counter, writer, value])
            self.job["phase"] = "store"
            self.phase([key, counter, writer, value])
            return
        value = self.job["row"][3]
        self.reply(request, {"type": "write_ok"} if request["type"] == "write" else {"type": "read_ok", "value": value})
        self.job = None
        self.next()

    def on_timer(self, name):
        self.set_timer("tick", 0.2)
        if self.mode == "AP":
            for peer, due in self.due.items():
                if due:
                    keys = [one[0] for one in due]
                    self.send(peer, {"type": "news", "rows": [row for row in self.copies if row[0] in keys]})
                    self.due[peer] = [one for one in due if one in [row[:3] for row in self.copies]]
            return
        while self.queue and self.now() - self.queue[0][0] > 1.5:
            self.refuse(self.queue.popleft()[1], 11)  # not begun: nothing can have happened
        if self.job and self.now() - self.job["since"] > 1.5:
            self.refuse(self.job["request"], 0)
            self.job = None
            self.next()
        if self.job:
            self.ask()

    def refuse(self, request, code):
        self.reply(request, {"type": "error", "code": code, "text": "no majority"})
