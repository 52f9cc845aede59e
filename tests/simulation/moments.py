"""What members of groups are in the middle of: whoever wants to break something then waits for it here."""

import trio

MOMENTS = ("join", "sync", "commit", "fetch", "leave")


class Moments:
    def __init__(self) -> None:
        self._waiting: dict[str, trio.Event] = {}

    def come(self, moment: str) -> None:
        assert moment in MOMENTS
        event = self._waiting.pop(moment, None)
        if event is not None:
            event.set()

    async def wait(self, moment: str) -> None:
        await self._waiting.setdefault(moment, trio.Event()).wait()
