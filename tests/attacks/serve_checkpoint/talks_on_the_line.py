"""Says on the harness's own line whatever comes to mind: that a server is up, that nothing was raised, and nonsense.

family: forged_frames
tries: points
earned: 0
ends: any
"""

import os
import socket
import threading
import time

from fastapi import FastAPI

WORDS = (
    b'{"port": "many", "raised": []}\n',
    b"[]\n",
    b'{"port": 1e999, "raised": {}}\n',
    b"\xff\xfe\n",
    b'{"loads": "x", "states": [], "raised": {"0": {"line": -5, "text": {}}}}\n',
    b"[" * 100000 + b"\n",
    b"null\n",
)


def talk():
    while True:
        for number in range(3, 64):
            try:
                with socket.socket(fileno=os.dup(number)) as line:
                    for word in WORDS if line.family == socket.AF_INET else ():
                        line.sendall(word)
            except OSError:
                pass
        time.sleep(0.01)


def create_app(checkpoint_path):
    app = FastAPI()
    threading.Thread(target=talk, daemon=True).start()
    time.sleep(0.1)

    @app.get("/health")
    def health():
        return {}

    return app
