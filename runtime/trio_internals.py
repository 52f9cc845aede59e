"""The only place that looks into Trio's private parts: finds the epoll with which a Trio loop waits.

`direct_wait` waits for sockets in the place of Trio's loop, and must stop as soon as anything happens that another task
waits for. Trio tells that by its epoll alone, and has no public way to ask for it: guest mode, its interface to other
event loops, would hand over every wait from a thread. If a version of Trio keeps its epoll elsewhere, servers work as
before, but each wait passes through Trio's loop, which costs throughput. tests/runtime/test_trio_internals.py fails
then.
"""

import select


def trio_epoll() -> select.epoll | None:
    """Returns the epoll of the Trio loop that runs in this thread; None if it is not where it used to be."""
    try:
        from trio._core._run import GLOBAL_RUN_CONTEXT

        epoll: object = getattr(GLOBAL_RUN_CONTEXT.runner.io_manager, "_epoll", None)
    except (ImportError, AttributeError):
        return None
    return epoll if isinstance(epoll, select.epoll) and not epoll.closed else None
