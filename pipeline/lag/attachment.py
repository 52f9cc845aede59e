"""`attach(spark, group="…")`: keeps a consumer group and metrics up to date with the streaming queries of a session.

The work is done by our own client on a Trio loop in a thread of its own. A stock client would be one more dependency in
every driver, and the Java client in the JVM is out of reach with Spark Connect. Ours speaks Kafka's protocol, survives
the failure of brokers, and bounds the time of every request.
"""

import atexit
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import trio

from tailrace.client.client_network import client_network
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.pipeline.jobs.broker_addresses import chosen_brokers, parse_brokers
from tailrace.runtime.embedded.side_loop import BlockingCalls, SideLoop
from tailrace.runtime.logs import FilteringBoundLogger, library_logger
from tailrace.runtime.network import Address, Listener, Network
from tailrace.runtime.settings import parse_address
from tailrace.runtime.wall_clock import SystemClock
from tailrace.server.health import Readiness
from tailrace.server.metric_text import render
from tailrace.server.metrics_server import MetricsServer

from .group_positions import GroupPositions
from .lag_keeper import INTERVAL_SECONDS, LAST_SECONDS_MAX, LagKeeper, Look
from .lag_metrics import lag_families
from .lag_rows import LagRow
from .progress_listener import progress_listener
from .query_progress import Sight
from .spark_queries import Heard, SparkQueries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS_MAX = 30.0
"""How long Spark may take to say what its queries do. A session that was stopped may never say it."""
LOGGER = "tailrace.pipeline.lag"
"""The name under which `logging` gets our events in the driver."""


class Attachment:
    """The work that `attach` has started. It ends with `stop`, or with the program."""

    def __init__(self, keeper: LagKeeper, loop: SideLoop, spark: "SparkSession", listener: Any) -> None:
        self._keeper = keeper
        self._loop = loop
        self._spark = spark
        self._listener = listener
        atexit.register(self.stop)

    @property
    def rows(self) -> tuple[LagRow, ...]:
        """The lag of each query in each partition, as it was last measured."""
        return self._keeper.rows

    @property
    def has_looked(self) -> bool:
        """Whether Spark has been asked for its queries at least once."""
        return self._keeper.counters.looks > 0

    def stop(self) -> None:
        """Commits for the last time and ends the work. The queries go on.

        This takes half a minute at most, and less than a second if the brokers respond.
        """
        atexit.unregister(self.stop)
        self._loop.stop(2 * LAST_SECONDS_MAX)
        if self._listener is not None:
            # The session may be stopped already, about which Spark Connect warns.
            with suppress(Exception), catch_warnings():
                simplefilter("ignore")
                self._spark.streams.removeListener(self._listener)
            self._listener = None

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def attach(
    spark: "SparkSession",
    group: str,
    *,
    bootstrap: str | None = None,
    metrics: str | None = None,
    interval_seconds: float = INTERVAL_SECONDS,
) -> Attachment:
    """Commits the progress of the session's streaming queries to `group`, and measures their lag.

    `group` may contain `{query}`, which stands for the name of a query, or its id if it has none. `bootstrap` names
    brokers as `HOST:PORT,HOST:PORT`; without it TAILRACE_BOOTSTRAP does. If neither is given, the first query with a
    Kafka source says which brokers it reads from. With Spark Connect that is not known, and 127.0.0.1:9092 is taken.
    `metrics` is an address `HOST:PORT` to listen on for Prometheus. Raises GroupNameError and SettingsError for
    arguments that cannot work. Everything that goes wrong later is logged and counted, and never raised.
    """
    positions = GroupPositions(group)
    brokers = chosen_brokers(bootstrap)
    listen = None if metrics is None else parse_address(metrics, "metrics")
    logger = library_logger(LOGGER)
    network = client_network()
    heard = Heard()
    keeper = LagKeeper(
        _look_at(SparkQueries(spark, heard)),
        positions,
        SpuClient(network, brokers or parse_brokers(None), BOOTSTRAP),
        SystemClock(),
        logger,
        interval_seconds,
        asks_brokers_of_queries=brokers is None,
    )

    def failed(error: BaseException) -> None:
        logger.error("lag_attachment_ended", reason=f"{type(error).__name__}: {error}")

    loop = SideLoop("tailrace-lag", partial(run_attached, keeper, network, listen, logger), failed)
    listener = _listen_to(spark, progress_listener(heard, partial(loop.call_soon, keeper.look_soon)), logger)
    return Attachment(keeper, loop, spark, listener)


async def run_attached(
    keeper: LagKeeper, network: Network, metrics: Address | None, logger: FilteringBoundLogger, stop: trio.Event
) -> None:
    """Runs the keeper, and the server of its metrics if there is an address, until `stop` is set."""
    async with serving_metrics(keeper, network, metrics, logger):
        await keeper.run(stop)


@asynccontextmanager
async def serving_metrics(
    keeper: LagKeeper, network: Network, address: Address | None, logger: FilteringBoundLogger
) -> AsyncIterator[None]:
    """Serves the metrics while the block runs. An address that cannot be used is logged, and nothing else happens."""
    listener = None if address is None else await _listen(network, address, logger)
    if listener is None:
        yield
        return

    async def scrape() -> bytes:
        await trio.lowlevel.checkpoint()
        return render(lambda: lag_families(keeper.counters, keeper.figures()))

    async def readiness() -> Readiness:
        await trio.lowlevel.checkpoint()
        is_measured = keeper.figures().age_seconds is not None
        return Readiness(is_measured, "the lag is measured" if is_measured else "the lag was not measured yet")

    with closing(listener):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(MetricsServer(scrape, readiness, logger).serve, listener)
            yield
            nursery.cancel_scope.cancel()


async def _listen(network: Network, address: Address, logger: FilteringBoundLogger) -> Listener | None:
    try:
        listener = await network.listen(address)
    except Exception as error:
        logger.error("lag_metrics_not_served", reason=str(error))
        return None
    logger.info("metrics_served", address=str(listener.address))
    return listener


def _look_at(queries: SparkQueries) -> Look:
    """Returns the look at the queries of a session, which blocks and so gets a thread."""
    calls = BlockingCalls()

    async def look() -> Sight:
        with trio.fail_after(LOOK_SECONDS_MAX):
            return await calls.run(queries.look)

    return look


def _listen_to(spark: "SparkSession", listener: Any, logger: FilteringBoundLogger) -> Any:
    """Adds the listener, or returns None. Without one, only queries that end within a second are missed."""
    try:
        spark.streams.addListener(listener)
    except Exception as error:
        logger.info("progress_listener_refused", reason=f"{type(error).__name__}: {error}")
        return None
    return listener
