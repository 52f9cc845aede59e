"""The function of a trigger that writes down which events it gets and when, and emits a bill for each.

Each worker process has a file of its own in the directory TAILRACE_TEST_EVENTS.
"""

import os
import time

WORK_SECONDS = 0.003
"""How long an event takes, so that faults happen while events are handled."""


def init_context(context):
    path = f"{os.environ['TAILRACE_TEST_EVENTS']}/{os.getpid()}.events"
    context.user_data.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def handler(context, event):
    os.write(context.user_data.file, b"%d %d %d\n" % (event.shard_id, event.offset, time.monotonic_ns()))
    time.sleep(WORK_SECONDS)
    context.emit("invoices", f"{event.shard_id} {event.offset}")
