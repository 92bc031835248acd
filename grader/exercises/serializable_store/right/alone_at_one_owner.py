"""An owner carries out a transaction that is on its keys alone. Others lock owner by owner, and readers read twice."""

from zlib import crc32

from grader.nodes import Node


class TxnStore(Node):
    def on_start(self):
        self.ring = sorted([self.id, *self.peers])
        self.disk["boot"] = self.disk.get("boot", 0) + 1
        self.boot = self.disk["boot"]
        self.serial = 0
        self.mine = {}  # transactions that this node coordinates and has not decided
        self.readers = {}
        self.alone = {}  # transactions of one owner, which does them by itself
        self.line = []  # prepares that wait for a lock here
        self.pending = []  # reads that wait for a lock here
        self.locked = {}  # key -> transaction
        self.held = {}  # transaction -> its record, as on disk
        self.telling = {}
        self.redo()
        for name in list(self.disk):
            if name.startswith("held "):
                self.take(name[5:], self.disk[name])
            if name.startswith("commit ") and self.disk[name]:
                self.telling[name[7:]] = self.disk[name]
        self.set_timer("beat", 0.1)

    def place(self, key):
        return self.ring[crc32(str(key).encode()) % len(self.ring)]

    def take(self, tx, record):
        self.held[tx] = record
        for k in record["keys"]:
            self.locked[k] = tx

    def data(self, key):
        return self.disk.get("data " + key, [0, []])

    def on_message(self, src, body):
        getattr(self, "get_" + body["type"])(src, body)

    def get_txn(self, src, body):
        ops = [[f, str(k), v] for f, k, v in body["txn"]]
        self.serial += 1
        tx = f"{self.boot}.{self.serial}@{self.id}"
        by = {}
        for i, (f, k, v) in enumerate(ops):
            by.setdefault(self.place(k), []).append([i, f, k, v])
        if not by:
            return self.reply(body, {"type": "txn_ok", "txn": []})
        job = {"request": body, "by": by, "start": self.now(), "heard": self.now(), "got": {}, "todo": sorted(by)}
        if len(by) == 1:
            self.alone[tx] = job
            self.send(job["todo"][0], {"type": "do", "tx": tx, "ops": by[job["todo"][0]]})
        elif all(f == "r" for f, _, _ in ops):
            job["round"] = 1
            job["try"] = 0
            self.readers[tx] = job
            self.read(tx)
        else:
            self.mine[tx] = job
            self.lock_next(tx)

    # one owner
    def get_do(self, src, body):
        tx = body["tx"]
        if "result " + tx in self.disk:
            return self.send(src, {"type": "done", "tx": tx, "reads": self.disk["result " + tx]})
        if any(k in self.locked for _, _, k, _ in body["ops"]):
            return None  # it comes again
        new, reads = {}, {}
        for i, f, k, v in body["ops"]:
            if f == "r":
                reads[str(i)] = self.data(k)[1] + new.get(k, [])
            else:
                new.setdefault(k, []).append(v)
        self.disk["plan"] = {
            "tx": tx,
            "reads": reads,
            "data": {k: [self.data(k)[0] + 1, self.data(k)[1] + v] for k, v in new.items()},
        }
        self.redo()
        self.send(src, {"type": "done", "tx": tx, "reads": reads})

    def redo(self):
        plan = self.disk.get("plan")
        if plan is None:
            return
        for k, v in plan["data"].items():
            self.disk["data " + k] = v
        self.disk["result " + plan["tx"]] = plan["reads"]
        del self.disk["plan"]

    def get_done(self, src, body):
        job = self.alone.pop(body["tx"], None)
        if job is not None:
            got = {int(i): v for i, v in body["reads"].items()}
            txn = [[f, k, got[i]] if f == "r" else [f, k, v] for i, (f, k, v) in enumerate(job["request"]["txn"])]
            self.reply(job["request"], {"type": "txn_ok", "txn": txn})

    # readers
    def read(self, tx):
        job = self.readers[tx]
        for node, ops in job["by"].items():
            if node not in job["got"]:
                self.send(
                    node,
                    {
                        "type": "look",
                        "tx": tx,
                        "try": job["try"],
                        "round": job["round"],
                        "keys": sorted({k for _, _, k, _ in ops}),
                    },
                )

    def get_look(self, src, body):
        if any(k in self.locked for k in body["keys"]):
            if body["round"] == 1:
                if (src, body) not in self.pending:
                    self.pending.append((src, body))
                return
            found = None
        else:
            found = {k: self.data(k) for k in body["keys"]}
        self.send(src, {"type": "seen", "tx": body["tx"], "try": body["try"], "round": body["round"], "found": found})

    def get_seen(self, src, body):
        job = self.readers.get(body["tx"])
        if job is None or [body["try"], body["round"]] != [job["try"], job["round"]]:
            return
        if job["round"] == 2 and body["found"] != job["first"][src]:
            job["try"] += 1
            job["round"] = 1
            job["got"] = {}
            if self.now() - job["start"] > 3.5:
                del self.readers[body["tx"]]
                return self.reply(job["request"], {"type": "error", "code": 30, "text": "busy"})
            return self.read(body["tx"])
        job["got"][src] = body["found"]
        if len(job["got"]) < len(job["by"]):
            return
        if job["round"] == 1 and len(job["by"]) > 1:
            job["first"] = job["got"]
            job["got"] = {}
            job["round"] = 2
            return self.read(body["tx"])
        del self.readers[body["tx"]]
        values = {k: v[1] for part in job["got"].values() for k, v in part.items()}
        txn = [["r", k, values[str(k)]] for _, k, _ in job["request"]["txn"]]
        self.reply(job["request"], {"type": "txn_ok", "txn": txn})

    # writers, the coordinator's part
    def lock_next(self, tx):
        job = self.mine[tx]
        node = job["todo"][0]
        self.send(node, {"type": "prepare", "tx": tx, "ops": job["by"][node]})

    def get_wait(self, src, body):
        if body["tx"] in self.mine and self.mine[body["tx"]]["todo"][0] == src:
            self.mine[body["tx"]]["heard"] = self.now()

    def get_prepared(self, src, body):
        tx = body["tx"]
        job = self.mine.get(tx)
        if job is None:
            return self.get_ask(src, body)
        if src != job["todo"][0]:
            return None
        job["heard"] = self.now()
        job["got"].update({int(i): v for i, v in body["reads"].items()})
        job["todo"].pop(0)
        if job["todo"]:
            return self.lock_next(tx)
        del self.mine[tx]
        self.disk["commit " + tx] = sorted(job["by"])
        self.telling[tx] = sorted(job["by"])
        for node in job["by"]:
            self.send(node, {"type": "end", "tx": tx, "commit": True})
        txn = [[f, k, job["got"][i]] if f == "r" else [f, k, v] for i, (f, k, v) in enumerate(job["request"]["txn"])]
        self.reply(job["request"], {"type": "txn_ok", "txn": txn})

    def give_up(self, tx, code):
        job = self.mine.pop(tx)
        self.reply(job["request"], {"type": "error", "code": code, "text": "not done"})
        for node in job["by"]:
            self.send(node, {"type": "end", "tx": tx, "commit": False})

    def get_ask(self, src, body):
        if body["tx"] not in self.mine:
            self.send(src, {"type": "end", "tx": body["tx"], "commit": "commit " + body["tx"] in self.disk})

    def get_ended(self, src, body):
        rest = [x for x in self.telling.get(body["tx"], []) if x != src]
        if body["tx"] in self.telling:
            self.disk["commit " + body["tx"]] = rest
            self.telling[body["tx"]] = rest
            if not rest:
                del self.telling[body["tx"]]

    # writers, the owner's part
    def get_prepare(self, src, body):
        tx = body["tx"]
        if "over " + tx in self.disk:
            return None
        if tx in self.held:
            return self.send(src, {"type": "prepared", "tx": tx, "reads": self.held[tx]["reads"]})
        if any(b["tx"] == tx for _, b in self.line):
            return self.send(src, {"type": "wait", "tx": tx})
        self.line.append((src, body))
        self.serve()
        if tx not in self.held:
            self.send(src, {"type": "wait", "tx": tx})

    def serve(self):
        rest = []
        ahead = set()
        for src, body in self.line:
            keys = sorted({k for _, _, k, _ in body["ops"]})
            if any(k in self.locked or k in ahead for k in keys):
                ahead.update(keys)
                rest.append((src, body))
                continue
            new, reads, adds = {}, {}, {}
            for i, f, k, v in body["ops"]:
                if f == "r":
                    reads[str(i)] = self.data(k)[1] + new.get(k, [])
                else:
                    new.setdefault(k, []).append(v)
            record = {"keys": keys, "new": new, "reads": reads, "boss": src}
            self.disk["held " + body["tx"]] = record
            self.take(body["tx"], record)
            self.send(src, {"type": "prepared", "tx": body["tx"], "reads": reads})
        self.line = rest
        looks, self.pending = self.pending, []
        for src, body in looks:
            self.get_look(src, body)

    def get_end(self, src, body):
        tx = body["tx"]
        self.line = [p for p in self.line if p[1]["tx"] != tx]
        record = self.held.get(tx)
        if record is not None:
            if body["commit"]:
                for k, new in record["new"].items():
                    version, old = self.data(k)
                    if old[len(old) - len(new) :] != new:
                        self.disk["data " + k] = [version + 1, old + new]
            self.disk["over " + tx] = True
            del self.disk["held " + tx]
            del self.held[tx]
            for k in record["keys"]:
                del self.locked[k]
        elif "over " + tx not in self.disk:
            self.disk["over " + tx] = True
        self.serve()
        if body["commit"]:
            self.send(src, {"type": "ended", "tx": tx})

    def on_timer(self, name):
        now = self.now()
        for tx, job in list(self.mine.items()):
            if now - job["heard"] > 1.0:
                self.give_up(tx, 11)
            elif now - job["start"] > 4.0:
                self.give_up(tx, 30)
            else:
                self.lock_next(tx)
        for tx, job in list(self.readers.items()):
            if now - job["start"] > 4.0:
                del self.readers[tx]
                self.reply(job["request"], {"type": "error", "code": 11, "text": "no answer"})
            else:
                self.read(tx)
        for tx, job in list(self.alone.items()):
            if now - job["start"] > 4.5:
                del self.alone[tx]
                self.reply(job["request"], {"type": "error", "code": 13, "text": "perhaps"})
            else:
                self.send(job["todo"][0], {"type": "do", "tx": tx, "ops": job["by"][job["todo"][0]]})
        for tx, nodes in self.telling.items():
            for node in nodes:
                self.send(node, {"type": "end", "tx": tx, "commit": True})
        for tx, record in self.held.items():
            self.send(record["boss"], {"type": "ask", "tx": tx})
        self.set_timer("beat", 0.12)
