"""A primary for each view, in turn; it sends its whole log. Backups move to the next view together (viewstamped
replication). The primary answers whoever forwarded a request; offsets have gaps."""

from grader.nodes import Node


class LogNode(Node):
    def on_start(self):
        self.all = sorted([self.id, *self.peers])
        self.view, self.normal, self.log = self.disk.get("state", [0, 0, []])
        self.life = self.disk.get("life", 0) + 1
        self.disk["life"] = self.life
        self.committed = self.done = self.count = 0
        self.results, self.keys, self.greatest = {}, {}, {}
        self.clients, self.views, self.acked = {}, {}, {}
        self.set_timer("tick", 0.1)
        self.patience()

    # ---- views

    def patience(self):
        self.set_timer("patience", self.random.uniform(0.4, 0.8))

    def primary(self):
        return self.all[self.view % len(self.all)]

    def leads(self):
        return self.normal == self.view and self.primary() == self.id

    def save(self):
        self.disk["state"] = [self.view, self.normal, self.log]

    def tell(self, body):
        for peer in self.peers:
            self.send(peer, {**body, "view": self.view})

    def move_to(self, view):
        self.view, self.views, self.acked = view, {}, {}
        self.save()
        self.patience()
        self.tell({"type": "moving"})
        if self.primary() == self.id:
            self.joined(self.id, self.normal, self.log)
        else:
            self.send(self.primary(), {"type": "join", "view": view, "normal": self.normal, "log": self.log})

    def joined(self, who, normal, log):
        self.views[who] = [normal, len(log), log]
        if 2 * len(self.views) > len(self.all):
            self.log = max(self.views.values(), key=lambda each: each[:2])[2]
            self.normal = self.view
            self.save()
            self.spread()

    def spread(self):
        self.tell({"type": "prepare", "log": self.log, "committed": self.committed})

    # ---- messages

    def on_timer(self, name):
        if name == "patience":
            if self.leads():
                self.patience()
            else:
                self.move_to(self.view + 1)
            return
        self.set_timer("tick", 0.1)
        if self.leads():
            self.spread()
        for number, (_, operation) in list(self.clients.items()):
            self.hand_over(number, operation)

    def on_message(self, src, body):
        getattr(self, "on_" + body["type"])(src, body)

    def on_moving(self, src, body):
        if body["view"] > self.view:
            self.move_to(body["view"])

    def on_join(self, src, body):
        if body["view"] > self.view:
            self.move_to(body["view"])
        if body["view"] == self.view and self.normal < self.view and self.primary() == self.id:
            self.joined(src, body["normal"], body["log"])

    def on_prepare(self, src, body):
        if body["view"] < self.view:
            return
        if self.normal < body["view"] or len(body["log"]) > len(self.log):
            self.view = self.normal = body["view"]
            self.log = body["log"]
            self.save()
        self.patience()
        self.send(src, {"type": "prepared", "view": self.view, "length": len(self.log)})
        self.carry_out(min(body["committed"], len(self.log)))

    def on_prepared(self, src, body):
        if body["view"] == self.view and self.leads():
            self.acked[src] = max(self.acked.get(src, 0), body["length"])
            lengths = sorted([*self.acked.values(), len(self.log)], reverse=True)
            if len(lengths) > len(self.peers) // 2:
                self.carry_out(lengths[len(self.all) // 2])

    # ---- requests

    def on_send(self, src, body):
        self.count += 1
        number = f"{self.id}.{self.life}.{self.count}"
        self.clients[number] = body, {k: v for k, v in body.items() if k not in ("msg_id", "in_reply_to")}
        self.hand_over(number, self.clients[number][1])

    on_commit_offsets = on_list_committed_offsets = on_send

    def on_poll(self, src, body):
        msgs = {}
        for key, since in body["offsets"].items():
            msgs[key] = [pair for pair in self.keys.get(key, []) if pair[0] >= since][:7]
        self.reply(body, {"type": "poll_ok", "msgs": msgs})

    def hand_over(self, number, operation):
        body = {"type": "operation", "number": number, "operation": operation}
        if self.primary() == self.id:
            self.on_operation(self.id, body)
        else:
            self.send(self.primary(), body)

    def on_operation(self, src, body):
        number = body["number"]
        if number in self.results:
            self.finish(src, number)
        elif self.leads() and all(number != each[0] for each in self.log):
            self.log = [*self.log, [number, body["operation"]]]
            self.save()
            self.spread()

    def finish(self, who, number):
        if who == self.id:
            self.on_finished(who, {"number": number, "answer": self.results[number]})
        else:
            self.send(who, {"type": "finished", "number": number, "answer": self.results[number]})

    def on_finished(self, src, body):
        waiting = self.clients.pop(body["number"], None)
        if waiting is not None:
            self.reply(waiting[0], body["answer"])

    def carry_out(self, upto):
        self.committed = max(self.committed, upto)
        while self.done < self.committed:
            number, operation = self.log[self.done]
            self.done += 1
            self.results[number] = self.effect(operation, 10 * self.done)
            if number in self.clients:
                self.finish(self.id, number)
            elif self.leads():
                self.finish(number.split(".")[0], number)

    def effect(self, operation, offset):
        kind = operation["type"]
        if kind == "send":
            self.keys.setdefault(operation["key"], []).append([offset, operation["msg"]])
            return {"type": "send_ok", "offset": offset}
        if kind == "commit_offsets":
            for key, value in operation["offsets"].items():
                if key not in self.greatest or self.greatest[key] < value:
                    self.greatest[key] = value
            return {"type": "commit_offsets_ok"}
        known = {key: self.greatest[key] for key in operation["keys"] if key in self.greatest}
        return {"type": "list_committed_offsets_ok", "offsets": known}
