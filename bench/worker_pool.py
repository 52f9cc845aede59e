"""Measures workers without a broker: chunks in memory go to a pool of worker processes, and outcomes come back.

    python bench/worker_pool.py [--handler no-op] [--workers 1] [--shards 2] [--records 500000] [--batch 1000]

It prints records/s, and the CPU time per record in this process, which is the replica's side, and in the workers.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import trio

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.runtime import logs
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.function_source import source_of
from tailrace.trigger.pool.worker_pool import WorkerPool
from tailrace.trigger.work import Chunk, Shard

HANDLERS = {
    "no-op": "def handler(context, event): pass",
    "body": "def handler(context, event): event.body; event.key",
    "async": "async def handler(context, event): pass",
    "batch": "def handler(context, events): pass",
    "emit": "def handler(context, event): context.emit('out', event.body)",
    "100us": (
        "import time\n"
        "def handler(context, event):\n"
        "    end = time.thread_time() + 100e-6\n"
        "    while time.thread_time() < end: pass\n"
    ),
}
VALUE_BYTES = 100
CHUNK_SECONDS = 0.05


def batches(records: int, size: int, compression: Compression) -> list[bytes]:
    """Makes record batches as a broker stores them."""
    return [
        bytes(
            build_batch(
                [
                    Record(offset, 1_700_000_000_000 + offset // 10, None, b"%0*d" % (VALUE_BYTES, offset))
                    for offset in range(base, base + size)
                ],
                base_offset=base,
                compression=compression,
            )
        )
        for base in range(0, records, size)
    ]


async def measure(options: argparse.Namespace, path: Path) -> dict[str, object]:
    stored = batches(options.records // options.shards, options.batch, Compression[options.compression.upper()])
    per_chunk = max(1, options.chunk // options.batch)
    config = TriggerConfig(name="bench", topic="t", group="g")
    pool = WorkerPool(source_of(str(path)), config, options.workers, logs.get_logger(), RandomChance())
    handled = 0

    async def one_shard(number: int) -> None:
        nonlocal handled
        batch_size = options.events if options.handler == "batch" else 0
        first, position = 0, 0
        while position < len(stored):
            some = stored[position : position + per_chunk]
            end = min((position + len(some)) * options.batch, options.records // options.shards)
            outcome = await pool.handle(
                Chunk(Shard("t", number), some, first, end, batch_size=batch_size, seconds_max=CHUNK_SECONDS)
            )
            assert outcome.failure is None
            handled += outcome.events
            first = outcome.next_offset
            position = first // options.batch

    async with trio.open_nursery() as nursery:
        await nursery.start(pool.run)
        pool.set_lease(float("inf"))
        began, cpu = time.perf_counter(), time.process_time()
        async with trio.open_nursery() as shards:
            for number in range(options.shards):
                shards.start_soon(one_shard, number)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        await pool.stop(5)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "handler": options.handler,
        "workers": options.workers,
        "records": handled,
        "records/s": round(handled / seconds),
        "replica us/record": round(cpu / handled * 1e6, 3),
        "workers us/record, start included": round((used.ru_utime + used.ru_stime) / handled * 1e6, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--handler", choices=HANDLERS, default="no-op")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=1000, help="records per batch")
    parser.add_argument("--chunk", type=int, default=8000, help="records per chunk")
    parser.add_argument("--events", type=int, default=100, help="events per call of a batch handler")
    parser.add_argument("--compression", default="none")
    logs.configure()
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "function.py")
        path.write_text(HANDLERS[options.handler])
        print(json.dumps(trio.run(measure, options, path)))


if __name__ == "__main__":
    main()
