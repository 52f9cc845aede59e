"""Renders metrics as the text that Prometheus scrapes.

Most metrics are families of the Prometheus library. Metrics with many series are rendered here, in pieces that
take only a moment each: the library takes ten times as long and blocks the process, even the renewal
of its lease.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, islice
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric

SAMPLES_PER_PIECE = 500


def gauge(name: str, text: str, samples: Iterable[tuple[str, float | None]]) -> Iterator[str]:
    """Yields the text of a gauge. A sample is a text from `labels` and a value; None is left out."""
    yield f"# HELP {name} {text}\n# TYPE {name} gauge\n"
    rest = iter(samples)
    while some := list(islice(rest, SAMPLES_PER_PIECE)):
        yield "".join(f"{name}{labels} {value}\n" for labels, value in some if value is not None)


def labels(**values: object) -> str:
    """Renders labels, with their braces."""
    pairs = (f'{name}="{_escaped(str(value))}"' for name, value in values.items())
    return f"{{{','.join(pairs)}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def counters(metrics: object, described: tuple[tuple[str, str], ...]) -> Iterator["Metric"]:
    """Yields attributes of `metrics` as counters. `described` holds pairs of attribute and description."""
    from prometheus_client.core import CounterMetricFamily

    for attribute, text in described:
        yield CounterMetricFamily(f"tailrace_{attribute}", text, value=getattr(metrics, attribute))


def cumulative(bounds: Iterable[float], counts: Iterable[int]) -> list[tuple[str, float]]:
    """Returns the buckets of a histogram as Prometheus has them: each counts everything up to its bound."""
    below = accumulate(counts)
    return [("+Inf" if bound == inf else str(bound), count) for bound, count in zip((*bounds, inf), below, strict=True)]


def render(families: Callable[[], Iterator["Metric"]]) -> bytes:
    """Renders metrics as the text that Prometheus scrapes."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import generate_latest

    class Scrape:
        def collect(self) -> Iterator["Metric"]:
            return families()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Scrape())
    return generate_latest(registry)
