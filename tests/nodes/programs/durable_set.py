"""A g-set as a Node class: what is on `disk` outlasts a crash, what is in memory does not; gossip by a timer."""

from grader.nodes import Node


class Durable(Node):
    def on_start(self):
        self.values = set(self.disk.get("values", []))
        self.set_timer("gossip", 0.05)
        self.set_timer("never", 0.01)
        self.cancel_timer("never")
        print("started: this goes to stderr, for stdout is for messages")

    def keep(self, values):
        if not values <= self.values:
            self.values |= values
            self.disk["values"] = sorted(self.values)

    def on_message(self, src, body):
        match body["type"]:
            case "add":
                self.keep({body["element"]})
                self.reply(body, {"type": "add_ok"})
            case "read":
                self.reply(body, {"type": "read_ok", "value": sorted(self.values)})
            case "state":
                self.keep(set(body["values"]))

    def on_timer(self, name):
        assert name == "gossip"
        self.set_timer("gossip", 0.05)
        for peer in self.peers:
            self.send(peer, {"type": "state", "values": sorted(self.values)})


class Forgetful(Durable):
    """Wrong: acknowledges what only memory holds."""

    def keep(self, values):
        self.values |= values


class Broken(Node):
    def on_message(self, src, body):
        raise ValueError("a handler failed")


NotANode = dict
