"""Forwards connections from ports of the host to ports of containers, as a container engine's proxy does.

Usage: `python forwarder.py HOST:PORT=HOST:PORT …`. It prints `ready` when it listens.
"""

import asyncio
import contextlib
import sys

PIECE_BYTES_MAX = 65536


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE_BYTES_MAX):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
        return
    writer.close()


async def forward(port: str) -> None:
    here, there = port.split("=")
    host, _, number = here.rpartition(":")
    to_host, _, to_number = there.rpartition(":")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            to_reader, to_writer = await asyncio.open_connection(to_host, int(to_number))
            await asyncio.gather(carry(reader, to_writer), carry(to_reader, writer))
            to_writer.close()
        writer.close()

    await asyncio.start_server(connected, host, int(number))


async def main() -> None:
    for port in sys.argv[1:]:
        await forward(port)
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
