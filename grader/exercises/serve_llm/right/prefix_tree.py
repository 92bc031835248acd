"""A tree of blocks: each node is a block, under the node of the block before it. A request is a path in it, and every
request runs in a generator of its own, which says how much it would compute next."""

from grader.serving import Chunk


class Node:
    def __init__(self, tree, parent, block):
        self.tree, self.parent, self.block = tree, parent, block
        self.children, self.users, self.key = {}, 0, None

    def claim(self):
        self.users += 1

    def leave(self):
        self.users -= 1
        if self.users == 0:
            if self.key is not None:
                self.parent.children[self.key].remove(self)
            self.tree.free.append(self.block)

    def whole(self, tokens):
        """Its tokens are computed: from now on others may find it, beside those that hold the same."""
        if self.key is None:
            self.key = tokens
            self.parent.children.setdefault(tokens, []).append(self)


class Stream:
    def __init__(self, tree, size, prompt, most):
        self.tree, self.size = tree, size
        self.text, self.end = list(prompt), len(prompt) + most
        self.path, self.seen = [], 0

    @property
    def last(self):
        return self.path[-1] if self.path else self.tree

    def known(self, node, depth=0):
        """The longest path below a node that holds what this request begins with."""
        if (depth + 1) * self.size >= len(self.text):
            return []
        same = node.children.get(tuple(self.text[depth * self.size : (depth + 1) * self.size]), [])
        return max(([child, *self.known(child, depth + 1)] for child in same), key=len, default=[])

    def enter(self):
        for node in self.known(self.tree):
            node.claim()
            self.path.append(node)
        self.seen = len(self.path) * self.size
        if -(-len(self.text) // self.size) - len(self.path) > len(self.tree.free):
            self.quit()
            return False
        while len(self.path) * self.size < len(self.text):
            self.extend()
        return True

    def extend(self):
        node = Node(self.tree, self.last, self.tree.free.pop(0))
        node.claim()
        self.path.append(node)

    def quit(self):
        while self.path:
            self.path.pop().leave()
        self.seen = 0

    def chunk(self, count):
        return Chunk(self.text[self.seen : self.seen + count], self.seen, [node.block for node in self.path])

    def advance(self, count, token):
        before, self.seen = self.seen, self.seen + count
        for at in range(before // self.size, self.seen // self.size):
            self.path[at].whole(tuple(self.text[at * self.size : (at + 1) * self.size]))
        if self.seen == len(self.text):
            self.text.append(token)
            return True
        return False


class Engine:
    def __init__(self, model, blocks, block_size, max_tokens_per_step):
        self.model, self.size, self.room = model, block_size, max_tokens_per_step
        self.tree = Node(None, None, None)
        self.tree.free = list(range(blocks))
        self.queue, self.streams, self.names = [], [], {}

    def submit(self, request_id, prompt, max_new_tokens):
        stream = Stream(self.tree, self.size, prompt, max_new_tokens)
        self.names[stream] = request_id
        self.queue.append(stream)

    def cancel(self, request_id):
        for stream, name in list(self.names.items()):
            if name == request_id:
                self.forget(stream)

    def forget(self, stream):
        stream.quit()
        del self.names[stream]
        for line in (self.queue, self.streams):
            if stream in line:
                line.remove(stream)

    def ready(self, stream):
        return stream.seen == len(stream.text) - 1

    def step(self):
        sizes = {}
        decoding = [stream for stream in self.streams if self.ready(stream)]
        for stream in decoding:
            while stream in self.streams and stream.seen == len(stream.path) * self.size:
                if self.tree.free:
                    stream.extend()
                else:
                    youngest = self.streams.pop()
                    youngest.quit()
                    self.queue.insert(0, youngest)
            if stream in self.streams:
                sizes[stream] = 1
        room = self.room - len(sizes)
        for stream in [stream for stream in self.streams if stream not in sizes]:
            sizes[stream] = min(room, len(stream.text) - stream.seen)
            room -= sizes[stream]
        while room and self.queue and self.queue[0].enter():
            stream = self.queue.pop(0)
            self.streams.append(stream)
            sizes[stream] = min(room, len(stream.text) - stream.seen)
            room -= sizes[stream]
        sizes = {stream: size for stream, size in sizes.items() if size}
        if not sizes:
            return {}
        logits = self.model.forward([stream.chunk(size) for stream, size in sizes.items()])
        found = {}
        for (stream, size), token in zip(sizes.items(), logits.argmax(1)):
            if stream.advance(size, int(token)):
                found[self.names[stream]] = [int(token)]
                if int(token) == self.model.eos or len(stream.text) == stream.end:
                    self.forget(stream)
        return found
