"""Every function is there and does nothing.

check: scatter
kind: wrong_result
"""

def broadcast(tensor, src):
    pass


def reduce(tensor, dst):
    pass


def scatter(chunks, src):
    pass


def gather(tensor, dst):
    pass


def all_gather(tensor):
    pass


def reduce_scatter(chunks):
    pass


def all_to_all(chunks):
    pass


def barrier():
    pass
