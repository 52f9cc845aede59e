"""Makes one HTML page of statistics, with plots and tables. It needs no network, and no script runs in it."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

from .size_buckets import SizeStat
from .stat_rows import PartitionStat, RateSlot, StatsResult, TopicStat, hottest_of
from .stat_words import bytes_text, count_text, power_range_text, rate_text, share_text, span_text, time_text
from .svg_charts import HEAT_STEPS, Bar, Part, bars, columns, heat_map, parts

TOPICS_MAX = 30
"""How many topics the page shows with plots. A table shows all of them."""
_BARS_MAX = 20
_KEY_BARS_MAX = 12
_STYLE = """
:root { color-scheme: light dark; --page: #f6f6f4; --card: #fff; --ink: #1b1b19; --quiet: #62625c; --line: #dededa;
  --accent: #2a6fc9; --rest: #c3c9d1; --mark: #b3541e; }
@media (prefers-color-scheme: dark) { :root { --page: #161615; --card: #212120; --ink: #f1f1ee; --quiet: #a6a69e;
  --line: #3a3a37; --accent: #5a9cf0; --rest: #55595f; --mark: #e8935a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 80rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; }
p, figcaption span { color: var(--quiet); } p { margin: .25rem 0 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .75rem; margin-top: 1.25rem; }
.tile, figure, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.tile { padding: .75rem 1rem; } .tile span { color: var(--quiet); font-size: .85rem; display: block; }
.tile b { font-size: 1.35rem; font-weight: 600; overflow-wrap: anywhere; }
details.card { margin-top: .75rem; padding: .25rem 1rem .5rem; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: .75rem; }
figure { margin: 0; padding: 1rem; min-width: 0; } .card { padding: .5rem 1rem 1rem; overflow-x: auto; }
figcaption { margin-bottom: .75rem; font-weight: 600; } figcaption span { display: block; font-weight: 400;
  font-size: .87rem; }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
svg .label, svg .tick { fill: var(--quiet); } svg .tick { font-size: 11px; }
svg .bar, svg .saved { fill: var(--accent); } svg .kept { fill: var(--rest); } svg .hit { fill: transparent; }
svg g:hover .bar, svg .saved:hover, svg .kept:hover { opacity: .75; } svg [class^=heat]:hover { stroke: var(--ink); }
svg .mean { stroke: var(--mark); stroke-width: 1.5; stroke-dasharray: 4 3; } svg .axis { stroke: var(--line); }
table { border-collapse: collapse; width: 100%; margin-top: .5rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--quiet); font-weight: 500; font-size: .85rem; } .n { text-align: right; }
summary { cursor: pointer; color: var(--quiet); margin-top: .5rem; }
"""
_HEAT = "\n".join(
    f"svg .heat{shade} {{ fill: color-mix(in oklab, var(--accent) {percent}%, var(--card)); }}"
    for shade, percent in ((each, 10 + 90 * each // (HEAT_STEPS - 1) if each else 6) for each in range(HEAT_STEPS))
)


def page_of(result: StatsResult) -> str:
    """Returns the page. Everything that comes from records is escaped."""
    shown = result.topics[:TOPICS_MAX]
    more = len(result.topics) - len(shown)
    body = [
        "<header><h1>Statistics of streams</h1>",
        f"<p>{escape(result.verdict)}.</p></header>",
        _tiles(result),
        "<h2>Topics</h2>",
        f'<div class="card">{_topics_table(result.topics)}</div>',
        *(_section(each) for each in shown),
    ]
    if more:
        body.append(f"<p>{more} more topics are in the table above only: name them to see their plots.</p>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Statistics of streams: {escape(result.source)}</title><style>{_STYLE}{_HEAT}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _tiles(result: StatsResult) -> str:
    facts = result.facts
    saved = sum(each.compaction.saved_bytes for each in result.topics)
    content = sum(each.content_bytes for each in result.topics)
    hottest = hottest_of(result.topics)
    tiles = [
        ("Records", count_text(sum(each.records for each in result.topics))),
        ("Keys and values", bytes_text(content)),
        ("Largest partition", str(facts.get("largest partition") or "–")),
        ("Most frequent key", "–" if hottest is None or hottest.hottest is None else hottest.hottest.name),
        ("Compaction would save", share_text(saved, content)),
        ("Duplicate records", count_text(sum(each.duplicate_count for each in result.topics))),
    ]
    shown = (f'<div class="tile"><span>{name}</span><b>{escape(text)}</b></div>' for name, text in tiles)
    return f'<div class="tiles">{"".join(shown)}</div>'


def _topics_table(topics: Iterable[TopicStat]) -> str:
    return _table(
        ("Topic", "#Partitions", "#Records", "#Keys and values", "#Stored", "#Ratio", "#Largest / mean",
         "#Compaction deletes", "#Producers", "#Duplicates"),
        [
            (
                each.topic,
                len(each.partitions),
                count_text(each.records),
                bytes_text(each.content_bytes),
                bytes_text(each.stored_bytes),
                "–" if each.compression_ratio is None else f"{each.compression_ratio:.2f}",
                f"{each.skew:.2f}",
                share_text(each.compaction.saved_bytes, each.content_bytes),
                f"about {count_text(each.producers_about)}",
                count_text(each.duplicate_count),
            )
            for each in topics
        ],
    )  # fmt: skip


def _section(topic: TopicStat) -> str:
    figures = [
        _partitions_figure(topic),
        _rate_figure(topic),
        _keys_figure(topic),
        _compaction_figure(topic),
        _sizes_figure("Sizes of keys", "keys", topic.key_sizes),
        _sizes_figure("Sizes of values", "values", topic.value_sizes),
    ]
    if topic.batch_records is not None and topic.batch_bytes is not None:
        figures.append(_batches_figure(topic, topic.batch_records))
        figures.append(_sizes_figure("Stored bytes of a batch", "batches", topic.batch_bytes))
    return f"<h2>{escape(topic.topic)}</h2><div class=grid>{''.join(figures)}</div>{_tables(topic)}"


def _partitions_figure(topic: TopicStat) -> str:
    ordered = sorted(topic.partitions, key=lambda each: (-each.weight, each.partition))
    mean = topic.weight / len(ordered)
    rows = [
        Bar(
            f"partition {each.partition}",
            each.weight,
            f"{bytes_text(each.weight)}, {share_text(each.weight, topic.weight)}",
            f"partition {each.partition}: {bytes_text(each.weight)}, {count_text(each.records)} records",
        )
        for each in ordered[:_BARS_MAX]
    ]
    caption = f"The largest partition has {topic.skew:.2f} times the mean, which the line shows."
    if len(ordered) > _BARS_MAX:
        caption += f" {len(ordered) - _BARS_MAX} smaller ones are left out."
    chart = bars(
        f"Bytes of the partitions of {topic.topic}", rows, mean=mean, mean_title=f"mean: {bytes_text(round(mean))}"
    )
    return _figure("Partitions", caption, chart)


def _rate_figure(topic: TopicStat) -> str:
    rated = [each for each in topic.partitions if each.rate]
    rated = sorted(rated, key=lambda each: (-each.weight, each.partition))[:_BARS_MAX]
    starts = [slot.start_ms for each in rated for slot in each.rate]
    if not starts:
        return _figure("Rate over time", "The records have no times.", columns("Rate over time", []))
    width_ms, first, last = topic.slot_seconds * 1000, min(starts), max(starts)
    times = range(first, last + 1, width_ms)
    rows = [(f"partition {each.partition}", _heat_row(each, times, topic.slot_seconds)) for each in rated]
    peak = max(each.peak_per_second or 0 for each in rated)
    ticks = [time_text(each) for each in (first, (first + last) // 2, last + width_ms)]
    chart = heat_map(
        f"Records per second of the partitions of {topic.topic}", rows, ticks, f"{rate_text(peak)} records/s"
    )
    return _figure(
        "Hot partitions over time", f"Records per second, in slots of {span_text(topic.slot_seconds)}.", chart
    )


def _heat_row(partition: PartitionStat, times: Iterable[int], width: int) -> list[tuple[float, str]]:
    slots = {each.start_ms: each for each in partition.rate}
    row = []
    for time in times:
        slot = slots.get(time, RateSlot(time, 0, 0))
        rate = slot.records / width
        words = (
            f"partition {partition.partition}, {time_text(time)}: {rate_text(rate)} records/s, {bytes_text(slot.bytes)}"
        )
        row.append((rate, words))
    return row


def _keys_figure(topic: TopicStat) -> str:
    rows = [
        Bar(
            f"{each.name} · p{each.partition}",
            each.records,
            f"{count_text(each.records)}, {share_text(each.records, topic.records)}",
            f"{each.name} in partition {each.partition}: {count_text(each.records)} records, {bytes_text(each.bytes)}",
        )
        for each in topic.keys[:_KEY_BARS_MAX]
    ]
    shown = sum(each.records for each in topic.keys[:_KEY_BARS_MAX] if each.key is not None)
    caption = f"The keys here have {share_text(shown, topic.records)} of the records."
    caption += f" There are {count_text(topic.compaction.keys)} keys."
    return _figure("Most frequent keys", caption, bars(f"Records of the most frequent keys of {topic.topic}", rows))


def _compaction_figure(topic: TopicStat) -> str:
    found = topic.compaction
    keyless, keyless_bytes = topic.records - found.keyed, topic.content_bytes - found.keyed_bytes
    rows = [
        _kept_row("records", found.keys + keyless, found.saved, count_text),
        _kept_row("bytes", found.kept_bytes + keyless_bytes, found.saved_bytes, bytes_text),
    ]
    caption = "Blue is what would go if only the latest record of each key stays."
    if keyless:
        caption += (
            f" {count_text(keyless)} records have no key and would stay, but a compacted topic takes no new ones."
        )
    if found.tombstones:
        caption += f" {count_text(found.tombstones)} of the latest records are tombstones, which would go later."
    return _figure("What compaction would save", caption, parts(f"What compaction would save in {topic.topic}", rows))


def _kept_row(name: str, kept: int, saved: int, shown: Callable[[int], str]) -> tuple[str, Sequence[Part], str]:
    row = [
        Part(kept, "kept", f"{shown(kept)} {'' if name == 'bytes' else name + ' '}would stay"),
        Part(saved, "saved", f"{shown(saved)} {'' if name == 'bytes' else name + ' '}would be deleted"),
    ]
    return name, row, f"−{share_text(saved, kept + saved)}"


def _sizes_figure(title: str, what: str, sizes: SizeStat) -> str:
    rows = [
        Bar(
            power_range_text(each.low, each.high),
            each.count,
            count_text(each.count),
            f"{each.low} to {each.high - 1} bytes: {count_text(each.count)} {what}",
        )
        for each in sizes.buckets
    ]
    caption = f"{count_text(sizes.count)} {what}. Half are at most {bytes_text(sizes.p50)}, 99 % at most "
    caption += f"{bytes_text(sizes.p99)}, the largest is {bytes_text(sizes.largest)}."
    if sizes.nulls:
        caption += f" {count_text(sizes.nulls)} are null."
    return _figure(title, caption, columns(title, rows))


def _batches_figure(topic: TopicStat, sizes: SizeStat) -> str:
    rows = [
        Bar(
            power_range_text(each.low, each.high),
            each.count,
            count_text(each.count),
            f"{each.low} to {each.high - 1} records: {count_text(each.count)} batches",
        )
        for each in sizes.buckets
    ]
    caption = f"{count_text(sizes.count)} batches have {sizes.mean:.1f} records on average. Small batches cost more."
    return _figure("Records of a batch", caption, columns(f"Records of a batch in {topic.topic}", rows))


def _tables(topic: TopicStat) -> str:
    tables = [("Partitions", _partitions_table(topic))]
    if topic.codecs:
        tables.append(
            (
                "Compression",
                _table(
                    ("Codec", "#Batches", "#Records", "#Stored"),
                    [
                        (each.codec, count_text(each.batches), count_text(each.records), bytes_text(each.bytes))
                        for each in topic.codecs
                    ],
                ),
            )
        )
    tables.append(
        (
            f"Producers (about {topic.producers_about}, and {count_text(topic.without_producer)} records without one)",
            _table(
                ("#Producer id", "#Epochs", "#Records", "#Batches", "#Bytes"),
                [
                    (
                        "none" if each.producer_id < 0 else each.producer_id,
                        each.epochs,
                        count_text(each.records),
                        count_text(each.batches),
                        bytes_text(each.bytes),
                    )
                    for each in topic.producers
                ],
            ),
        )
    )
    if topic.duplicates:
        tables.append(
            (
                f"Duplicates ({count_text(topic.duplicate_count)} records)",
                _table(
                    ("#Partition", "#Producer id", "#Epoch", "#Sequence", "#Times", "#First offset", "#Last offset"),
                    [
                        (
                            each.partition,
                            each.producer_id,
                            each.producer_epoch,
                            each.sequence,
                            each.times,
                            each.first,
                            each.last,
                        )
                        for each in topic.duplicates
                    ],
                ),
            )
        )
    return "".join(
        f'<details class="card"><summary>{escape(name)}</summary>{content}</details>' for name, content in tables
    )


def _partitions_table(topic: TopicStat) -> str:
    return _table(
        ("#Partition", "#First", "#Last", "#Records", "#Batches", "#Keys and values", "#Stored", "#Records/s",
         "#Peak/s", "#Keys", "#Compaction deletes", "#Duplicates"),
        [
            (
                each.partition, each.first, each.last, count_text(each.records), count_text(each.batches),
                bytes_text(each.content_bytes), bytes_text(each.stored_bytes), rate_text(each.per_second),
                rate_text(each.peak_per_second), count_text(each.compaction.keys),
                share_text(each.compaction.saved_bytes, each.content_bytes), count_text(each.duplicates),
            )
            for each in topic.partitions
        ],
    )  # fmt: skip


def _table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Makes a table. Columns with a title that begins with # are numbers."""
    styles = [' class="n"' if title.startswith("#") else "" for title in titles]
    head = "".join(f"<th{style}>{escape(title.lstrip('#'))}</th>" for title, style in zip(titles, styles, strict=True))
    lines = (
        "".join(f"<td{style}>{escape(str(cell))}</td>" for cell, style in zip(row, styles, strict=True)) for row in rows
    )
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table>"
    )


def _figure(title: str, caption: str, chart: str) -> str:
    return f"<figure><figcaption>{escape(title)}<span>{escape(caption)}</span></figcaption>{chart}</figure>"
