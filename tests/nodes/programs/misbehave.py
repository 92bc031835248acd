"""An echo server that misbehaves in the way that its argument names; n1 answers init first where it says "later"."""

import contextlib
import json
import os
import signal
import sys
import time

from wire import Wire

HOW = sys.argv[1]
wire = Wire()


def raw(data):
    while data:
        data = data[os.write(1, data) :]


def message(**changed):
    return {"src": wire.id, "dest": "c1", "body": {"type": "echo_ok", "in_reply_to": 1}, **changed}


def show(found):
    raw(json.dumps(found).encode() + b"\n")


def sleep():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(99)


def before():
    match HOW:
        case "hang":
            signal.pause()
        case "crash":
            raise RuntimeError("no such config file")
        case "exit":
            sys.exit(0)
        case "ignores_term":
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
        case "daemon":  # two more processes, which hold our pipes: a child, and one that left us and our session
            if os.fork() == 0:
                sleep()
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    sleep()
                os._exit(0)
            os.wait()
        case "counts_fds":
            found = set(os.listdir("/proc/self/fd")) - {"0", "1", "2", "3"}  # 3 is the listing's own
            assert not found, found
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        case "chatters":
            raw(b"starting up...\n")
        case "stderr_flood":
            for _ in range(300):
                os.write(2, b"all is well, nothing to see here\n" * 100)
            os.write(2, b"\xff\xfe the end of the flood\n")


def on_request(asked):
    """True if the answer is to be given as well."""
    match HOW:
        case "rubbish":
            print("handling", asked["body"], flush=True)
        case "endless_rubbish":
            while True:
                raw(b"yes\n" * 10000)
        case "long_line":
            while True:
                raw(b"x" * 65536)
        case "binary":
            raw(b"\x00\xff\xfe\x1b[2J\n")
        case "nan":
            raw(b'{"src": "n1", "dest": "c1", "body": {"type": "echo_ok", "in_reply_to": 1, "echo": NaN}}\n')
        case "deep":
            raw(b"[" * 500_000 + b"\n")
        case "huge_number":
            raw(b"9" * 10_000 + b"\n")
        case "list":
            show([1, 2])
        case "no_dest":
            show({"src": wire.id, "body": {}})
        case "dest_number":
            show(message(dest=1))
        case "no_body":
            show({"src": wire.id, "dest": "c1"})
        case "text_id":
            show(message(body={"type": "echo_ok", "in_reply_to": "1"}))
        case "other_src":
            show(message(src="n9"))
        case "other_dest":
            show(message(dest="n9"))
        case "no_in_reply_to":
            show(message(body={"type": "echo_ok"}))
        case "future_reply":
            show(message(dest=asked["src"], body={"type": "echo_ok", "in_reply_to": 77}))
        case "other_type":
            wire.reply(asked, {"type": "ok"})
        case "no_echo":
            wire.reply(asked, {"type": "echo_ok"})
        case "code_text":
            wire.reply(asked, {"type": "error", "code": "bad"})
        case "other_echo":
            wire.reply(asked, {"type": "echo_ok", "echo": "something else"})
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit_later":
            sys.exit(3)
        case "crash_later":
            {}["no such key"]
        case "storm":
            wire.send(wire.id, {"type": "storm"})
        case "deaf":
            sleep()
        case "silent":
            pass
        case _:
            return True
    return False


before()
for asked in wire.messages():
    if asked["body"]["type"] == "storm":
        wire.send(wire.id, {"type": "storm"})
        wire.send(wire.id, {"type": "storm"})
    elif on_request(asked):
        wire.reply(asked, {"type": "echo_ok", "echo": asked["body"]["echo"]})
        for path in sys.argv[2:3]:  # somebody waits to be told
            with contextlib.suppress(OSError):
                os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), b"answered")
            del sys.argv[2:]
