"""A function that writes down each event that it gets, and emits, fails at once, or fails for ever.

Each worker process has a file of its own in the directory TAILRACE_TEST_EVENTS. TAILRACE_TEST_SECONDS is how long an
event takes. If the file `kill` is in the directory, an event kills the process that has started the worker.
"""

import os
import signal
import time

from tailrace.trigger import Retry, trigger


def init_context(context):
    path = f"{os.environ['TAILRACE_TEST_EVENTS']}/{os.getpid()}.events"
    context.user_data.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def kill_parent(marker):
    try:
        os.unlink(marker)
    except FileNotFoundError:
        return
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


@trigger("orders", group="billing", seek_to="earliest", retry=Retry(attempts=2, backoff=(0.001, 0.01)))
def bill(context, event):
    line = f"{event.shard_id} {event.offset} {event.attempt} {event.body.decode()} {event.timestamp_ms}\n"
    os.write(context.user_data.file, line.encode())
    time.sleep(float(os.environ.get("TAILRACE_TEST_SECONDS", "0")))
    if event.shard_id == 0 and event.offset == 35:
        kill_parent(f"{os.environ['TAILRACE_TEST_EVENTS']}/kill")
    if event.offset % 20 == 7:
        raise ValueError(f"no luck with {event.body.decode()}")
    if event.offset % 20 == 9 and event.attempt == 1:
        raise KeyError("only once")
    if event.offset % 20 == 11 and event.attempt == 1:
        os._exit(3)
    context.emit("invoices", {"bill": event.body.decode()}, key=event.key, headers=event.headers)
