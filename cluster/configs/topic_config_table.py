"""The table of all topic configs: those of Kafka 4.3, and our own.

Requests are checked with this table, DescribeConfigs responds from it, and the broker's defaults are derived from it.
Configs without an effect, which are only kept for tools, have `honoured=False`.
"""

from tailrace.cluster.replication_policy import LIVE, fault_of_policy

from .config_definitions import (
    ConfigDefinition,
    ConfigType,
    Rule,
    Synonym,
    at_least,
    between,
    by_name,
    one_of,
    some_of,
)

BOOLEAN, STRING, INT, LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
DOUBLE, LIST = ConfigType.DOUBLE, ConfigType.LIST
NEVER = 2**63 - 1
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
GZIP_LEVELS = Rule(
    "-1 (the default level) or a number from 1 to 9",
    lambda value: value == -1 or (isinstance(value, int) and 1 <= value <= 9),
)
THROTTLED_REPLICAS = Rule(
    "* or a comma-separated list of PARTITION:SPU",
    lambda value: value == ("*",) or (isinstance(value, tuple) and all(_is_pair_of_numbers(entry) for entry in value)),
)


def _is_pair_of_numbers(entry: str) -> bool:
    left, colon, right = entry.partition(":")
    return bool(colon) and all(part.isascii() and part.isdigit() for part in (left, right))


TOPIC_CONFIGS = by_name(
    (
        # retention and compaction
        ConfigDefinition(
            "cleanup.policy",
            LIST,
            ("delete",),
            "How old data is removed: delete drops whole segments by age and size; compact keeps the last record of "
            "every key. Both may be given; with neither, everything is kept.",
            some_of("compact", "delete"),
            (Synonym("log.cleanup.policy", ("delete",)),),
        ),
        ConfigDefinition(
            "retention.ms",
            LONG,
            7 * DAY_MS,
            "How long records are kept under the delete policy, by their timestamps; -1 keeps them whatever their age.",
            at_least(-1),
            (
                Synonym("log.retention.ms"),
                Synonym("log.retention.minutes", None, MINUTE_MS, INT, read_only=True),
                Synonym("log.retention.hours", 168, HOUR_MS, INT, read_only=True),
            ),
        ),
        ConfigDefinition(
            "retention.bytes",
            LONG,
            -1,
            "How large a partition may grow before its oldest segments are dropped under the delete policy; "
            "-1 sets no bound.",
            at_least(-1),
            (Synonym("log.retention.bytes", -1),),
        ),
        ConfigDefinition(
            "delete.retention.ms",
            LONG,
            DAY_MS,
            "How long compaction keeps a tombstone, so that a reader that started before still learns of the removal.",
            at_least(0),
            (Synonym("log.cleaner.delete.retention.ms", DAY_MS),),
        ),
        ConfigDefinition(
            "min.cleanable.dirty.ratio",
            DOUBLE,
            0.5,
            "Which share of a compacted log must be new since the last compaction before it is compacted again.",
            between(0, 1),
            (Synonym("log.cleaner.min.cleanable.ratio", 0.5),),
        ),
        ConfigDefinition(
            "min.compaction.lag.ms",
            LONG,
            0,
            "How old a record must be before compaction may drop it.",
            at_least(0),
            (Synonym("log.cleaner.min.compaction.lag.ms", 0),),
        ),
        ConfigDefinition(
            "max.compaction.lag.ms",
            LONG,
            NEVER,
            "After how long a record is compacted even if little of the log is new.",
            at_least(1),
            (Synonym("log.cleaner.max.compaction.lag.ms", NEVER),),
        ),
        ConfigDefinition(
            "file.delete.delay.ms",
            LONG,
            MINUTE_MS,
            "How long Kafka keeps a file after it dropped the segment. Tailrace removes a file when its last reader "
            "has closed it.",
            at_least(0),
            (Synonym("log.segment.delete.delay.ms", MINUTE_MS),),
            honoured=False,
        ),
        # segments and indexes
        ConfigDefinition(
            "segment.bytes",
            INT,
            1 << 30,
            "How large a segment may grow before the next one is opened.",
            at_least(1 << 20),
            (Synonym("log.segment.bytes", 1 << 30),),
        ),
        ConfigDefinition(
            "internal.segment.bytes",
            INT,
            None,
            "Like segment.bytes but without its lower bound; for tests that need many small segments.",
            at_least(1),
            hidden=True,
        ),
        ConfigDefinition(
            "segment.ms",
            LONG,
            7 * DAY_MS,
            "How old a segment may become before the next one is opened, even if it is not full.",
            at_least(1),
            (Synonym("log.roll.ms"), Synonym("log.roll.hours", 168, HOUR_MS, INT, read_only=True)),
        ),
        ConfigDefinition(
            "segment.jitter.ms",
            LONG,
            0,
            "By up to how much segment.ms is shortened at random, so that partitions do not all roll at once.",
            at_least(0),
            (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", 0, HOUR_MS, INT, read_only=True)),
            honoured=False,
        ),
        ConfigDefinition(
            "segment.index.bytes",
            INT,
            10 << 20,
            "How large the index of one segment may grow before the next segment is opened.",
            at_least(4),
            (Synonym("log.index.size.max.bytes", 10 << 20),),
        ),
        ConfigDefinition(
            "index.interval.bytes",
            INT,
            4096,
            "About how many bytes of log lie between two entries of an index.",
            at_least(0),
            (Synonym("log.index.interval.bytes", 4096),),
        ),
        ConfigDefinition(
            "preallocate",
            BOOLEAN,
            False,
            "Whether a new segment's file takes its full size at once.",
            None,
            (Synonym("log.preallocate", False),),
            honoured=False,
        ),
        # flushing
        ConfigDefinition(
            "flush.messages",
            LONG,
            NEVER,
            "After how many records the log is synced to the disk; 1 syncs every batch before it is acknowledged.",
            at_least(1),
            (Synonym("log.flush.interval.messages", NEVER),),
        ),
        ConfigDefinition(
            "flush.ms",
            LONG,
            1000,
            "How long a record may stay in the page cache before it is synced to the disk.",
            at_least(0),
            (Synonym("log.flush.interval.ms", 1000),),
        ),
        ConfigDefinition(
            "flush.bytes",
            LONG,
            64 << 20,
            "After how many bytes the log is synced to the disk. Tailrace's own.",
            at_least(1),
            (Synonym("log.flush.interval.bytes", 64 << 20),),
        ),
        # produced batches
        ConfigDefinition(
            "max.message.bytes",
            INT,
            (1 << 20) + 12,
            "How large a record batch may be, compressed and with its header; never larger than 1 GiB less 64 KiB, "
            "which is the largest batch that can be sent to a follower.",
            at_least(0),
            (Synonym("message.max.bytes", (1 << 20) + 12),),
        ),
        ConfigDefinition(
            "compression.type",
            STRING,
            "producer",
            "How batches are compressed on disk; producer keeps them as they were sent, at no cost.",
            one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            (Synonym("compression.type", "producer"),),
        ),
        ConfigDefinition(
            "compression.gzip.level",
            INT,
            -1,
            "The compression level if compression.type is gzip.",
            GZIP_LEVELS,
            (Synonym("compression.gzip.level", -1),),
        ),
        ConfigDefinition(
            "compression.lz4.level",
            INT,
            9,
            "The compression level if compression.type is lz4.",
            between(1, 17),
            (Synonym("compression.lz4.level", 9),),
        ),
        ConfigDefinition(
            "compression.zstd.level",
            INT,
            3,
            "The compression level if compression.type is zstd; negative levels are faster.",
            between(-131_072, 22),
            (Synonym("compression.zstd.level", 3),),
        ),
        ConfigDefinition(
            "message.timestamp.type",
            STRING,
            "CreateTime",
            "Which time a record carries: CreateTime is the producer's, LogAppendTime that of the leader at arrival.",
            one_of("CreateTime", "LogAppendTime"),
            (Synonym("log.message.timestamp.type", "CreateTime"),),
        ),
        ConfigDefinition(
            "message.timestamp.before.max.ms",
            LONG,
            NEVER,
            "How far a producer's timestamp may be behind the leader's clock before its batch is refused.",
            at_least(0),
            (Synonym("log.message.timestamp.before.max.ms", NEVER),),
        ),
        ConfigDefinition(
            "message.timestamp.after.max.ms",
            LONG,
            HOUR_MS,
            "How far a producer's timestamp may be ahead of the leader's clock before its batch is refused.",
            at_least(0),
            (Synonym("log.message.timestamp.after.max.ms", HOUR_MS),),
        ),
        # replication
        ConfigDefinition(
            "min.insync.replicas",
            INT,
            1,
            "How many live replicas a partition needs before it accepts records with acks=all.",
            at_least(1),
            (Synonym("min.insync.replicas", 1),),
        ),
        ConfigDefinition(
            "unclean.leader.election.enable",
            BOOLEAN,
            False,
            "Whether a replica that may lack committed records can be elected if no other is left; records may then "
            "be lost.",
            None,
            (Synonym("unclean.leader.election.enable", False),),
        ),
        ConfigDefinition(
            "replication.policy",
            STRING,
            LIVE,
            "When a record is committed: live waits for every live replica, majority for more than half of all, "
            "nrw:N,R,W for W stores of N. It can be set only when the topic is created, because another policy might "
            "not find what this one has committed. Tailrace's own.",
            Rule(
                "live, majority, or nrw:N,R,W with R and W between 1 and N, and R + W more than N",
                lambda value: isinstance(value, str) and fault_of_policy(value) is None,
            ),
            read_only=True,
        ),
        ConfigDefinition(
            "lrs.max.lag.records",
            LONG,
            1_000_000,
            "How many records a follower may lag before it leaves the live replica set, so that acks=all no longer "
            "waits for it; it returns when it has caught up. Tailrace's own.",
            at_least(1),
            (Synonym("lrs.max.lag.records", 1_000_000),),
        ),
        ConfigDefinition(
            "lrs.max.lag.ms",
            LONG,
            10_000,
            "How long a follower may be short of its leader's log end before it leaves the live replica set. Per topic "
            "it is Tailrace's own; Kafka has it per broker, as replica.lag.time.max.ms with a default of 30000.",
            at_least(1),
            (Synonym("replica.lag.time.max.ms", 10_000),),
        ),
        ConfigDefinition(
            "consumer.consistency",
            STRING,
            "committed",
            "How far consumers read: committed stops at the high watermark; uncommitted goes on to the end of the "
            "leader's log, where records may still be lost in an election, and is discouraged. Tailrace's own.",
            one_of("committed", "uncommitted"),
        ),
        ConfigDefinition(
            "leader.replication.throttled.replicas",
            LIST,
            (),
            "The replicas for which the leader limits what it sends to followers.",
            THROTTLED_REPLICAS,
            honoured=False,
        ),
        ConfigDefinition(
            "follower.replication.throttled.replicas",
            LIST,
            (),
            "The replicas for which the follower limits what it takes from the leader.",
            THROTTLED_REPLICAS,
            honoured=False,
        ),
        # shelves
        ConfigDefinition(
            "remote.storage.enable",
            BOOLEAN,
            False,
            "Whether sealed and committed segments are put on shelves, which are copies on SPUs that are not replicas, "
            "so that a partition may be larger than a disk. local.retention.ms and local.retention.bytes say when the "
            "replicas drop such segments. If it is set back to false, no more segments are put on shelves; those there "
            "can still be read, until retention removes them. It excludes compaction and unclean elections.",
        ),
        ConfigDefinition(
            "remote.log.copy.disable",
            BOOLEAN,
            False,
            "Whether to put no more segments on shelves although remote.storage.enable is true.",
        ),
        ConfigDefinition(
            "remote.log.delete.on.disable",
            BOOLEAN,
            False,
            "Whether turning remote.storage.enable off removes the shelves. In Tailrace they stay until retention "
            "removes them.",
            honoured=False,
        ),
        ConfigDefinition(
            "local.retention.ms",
            LONG,
            -2,
            "How long replicas keep a segment that is on a shelf; -2 means as long as retention.ms, -1 as long as the "
            "partition has it. If remote.storage.enable is true, it must be at most retention.ms.",
            at_least(-2),
            (Synonym("log.local.retention.ms", -2),),
        ),
        ConfigDefinition(
            "local.retention.bytes",
            LONG,
            -2,
            "How large a replica may grow before the oldest of its segments that are on a shelf are dropped from it; "
            "-2 means the same as retention.bytes, -1 sets no bound. If remote.storage.enable is true, it must be at "
            "most retention.bytes.",
            at_least(-2),
            (Synonym("log.local.retention.bytes", -2),),
        ),
    )
)
