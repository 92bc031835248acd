"""A class per phase (Inquiry, Storing); a timestamp travels as one string, counter@node, zero-padded so that strings order like stamps; the whole table under one disk key as a list of rows; lost messages are sent again, error 0 after 1.8 s."""

from grader.nodes import Node


def stamped(counter, node):
    return f"{counter:015d}@{node}"


ZERO = stamped(0, "")


class Phase:
    def __init__(self, node, request, word, quorum, **fields):
        node.names += 1
        self.node, self.request, self.quorum, self.fields = node, request, quorum, fields
        self.ticket = f"{node.prefix}-{node.names}"
        self.message = {"word": word, "type": "please", "ticket": self.ticket, "key": request["key"], **fields}
        self.answers = {}

    def begin(self):
        self.node.phases[self.ticket] = self
        for peer in self.node.peers:
            self.node.send(peer, self.message)
        self.hear(self.node.id, self.node.do(self.message))

    def again(self):
        for peer in self.node.peers:
            if peer not in self.answers:
                self.node.send(peer, self.message)

    def hear(self, who, answer):
        self.answers[who] = answer
        if len(self.answers) >= self.quorum:
            self.node.phases.pop(self.ticket, None)
            self.over()


class Inquiry(Phase):
    def over(self):
        best = max(self.answers.values())
        if self.request["type"] == "write":
            here = self.node.table.get(repr(self.request["key"]), [ZERO])[0]
            counter = int(max(best[0], here).partition("@")[0]) + 1
            best = [stamped(counter, self.node.id), [self.request["value"]]]
            self.node.put(self.request["key"], *best)
        Storing(self.node, self.request, "keep", self.node.write_quorum, stamp=best[0], boxed=best[1]).begin()

    def hear(self, who, answer):
        super().hear(who, (answer[0], answer[1]))


class Storing(Phase):
    def over(self):
        self.node.cancel_timer("give up " + self.request["ticket"])
        self.node.cancel_timer("again " + self.request["ticket"])
        del self.node.open[self.request["ticket"]]
        if self.request["type"] == "write":
            answer = {"type": "write_ok"}
        else:
            boxed = self.fields["boxed"]
            answer = {"type": "read_ok", "value": boxed[0] if boxed else None}
        self.node.reply(self.request["body"], answer)


class QuorumStore(Node):
    def on_start(self):
        self.prefix = f"{self.id}/{self.random.random()}"
        self.names = 0
        self.phases = {}
        self.open = {}
        self.table = {name: [stamp, boxed] for name, stamp, boxed in self.disk.get("table", [])}

    def put(self, key, stamp, boxed):
        if stamp > self.table.get(repr(key), [ZERO])[0]:
            self.table[repr(key)] = [stamp, boxed]
            self.disk["table"] = [[name, *row] for name, row in self.table.items()]

    def do(self, message):
        if message["word"] == "keep":
            self.put(message["key"], message["stamp"], message["boxed"])
            return ["", []]
        return self.table.get(repr(message["key"]), [ZERO, []])

    def on_message(self, src, body):
        if body["type"] in ("read", "write"):
            self.names += 1
            ticket = f"{self.names}"
            request = {
                "type": body["type"],
                "key": body["key"],
                "value": body.get("value"),
                "body": body,
                "ticket": ticket,
            }
            self.open[ticket] = request
            self.set_timer("give up " + ticket, 1.8)
            self.set_timer("again " + ticket, 0.3)
            Inquiry(self, request, "look", self.read_quorum).begin()
        elif body["type"] == "please":
            self.send(src, {"type": "there", "ticket": body["ticket"], "answer": self.do(body)})
        elif body["type"] == "there" and body["ticket"] in self.phases:
            self.phases[body["ticket"]].hear(src, body["answer"])

    def on_timer(self, name):
        what, _, ticket = name.rpartition(" ")
        request = self.open.get(ticket)
        if request is None:
            return
        mine = [phase for phase in self.phases.values() if phase.request is request]
        if what == "again":
            for phase in mine:
                phase.again()
            self.set_timer(name, 0.3)
        else:
            for phase in mine:
                del self.phases[phase.ticket]
            del self.open[ticket]
            self.cancel_timer("again " + ticket)
            self.reply(request["body"], {"type": "error", "code": 0, "text": "no quorum"})
