"""FastStream with one of the bench's handlers: `fast_stream.py HOST:PORT TOPIC GROUP HANDLER`."""

import asyncio
import sys

from faststream import FastStream
from faststream.kafka import KafkaBroker
from handlers import CALLS


async def main() -> None:
    bootstrap, topic, group, handler = sys.argv[1:]
    broker = KafkaBroker(bootstrap, logger=None)
    call = CALLS[handler]

    @broker.subscriber(topic, group_id=group, auto_offset_reset="earliest")
    async def handle(body: bytes) -> None:
        call()

    await FastStream(broker, logger=None).run()


if __name__ == "__main__":
    asyncio.run(main())
