"""Rests between pieces of work, as long as the configs say: also what they say meanwhile."""

from collections.abc import Callable

import trio

LOOK_AGAIN_SECONDS = 10.0
"""So often the configs are looked at. A rest that somebody made far too long ends when it is made shorter."""


async def rest(seconds: Callable[[], float], since: float | None = None) -> None:
    """Until so long after `since`, or after now."""
    began = trio.current_time() if since is None else since
    while True:
        left = began + seconds() - trio.current_time()
        await trio.sleep(min(max(left, 0), LOOK_AGAIN_SECONDS))
        if left <= LOOK_AGAIN_SECONDS:
            return
