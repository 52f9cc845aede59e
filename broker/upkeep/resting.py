"""Pauses between pieces of background work, as long as the configs say, even if the configs change meanwhile."""

from collections.abc import Callable

import trio

RECHECK_SECONDS = 10.0
"""How often a pause reads the configs again, so that it ends soon after it is configured to be shorter."""


async def rest(seconds: Callable[[], float], since: float | None = None) -> None:
    """Waits until `seconds` have passed after `since`, or after the call. The seconds may change meanwhile."""
    began = trio.current_time() if since is None else since
    while True:
        left = began + seconds() - trio.current_time()
        await trio.sleep(min(max(left, 0), RECHECK_SECONDS))
        if left <= RECHECK_SECONDS:
            return
