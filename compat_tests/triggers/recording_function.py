"""The function of a trigger that writes down what it handles, one line when an event begins and one when it ends.

Each worker process has a file of its own in the directory TAILRACE_TEST_EVENTS: see triggers/handled.py.
"""

import os
import time

WORK_SECONDS = 0.005


def init_context(context):
    context.user_data.owner, context.user_data.worker = os.getppid(), os.getpid()
    path = f"{os.environ['TAILRACE_TEST_EVENTS']}/{os.getpid()}.events"
    context.user_data.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def handler(context, event):
    _write("begin", context.user_data, event)
    time.sleep(WORK_SECONDS)
    _write("end", context.user_data, event)


def _write(what, data, event):
    line = f"{what} {event.shard_id} {event.offset} {time.monotonic():.6f} {data.owner} {data.worker}\n"
    os.write(data.file, line.encode())
