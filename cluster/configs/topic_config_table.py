"""Every config a topic may have: Kafka 4.3's, and ours.

One table, from which requests are checked, DescribeConfigs is answered and the broker's defaults are derived. What we
only keep for tools that set it says so in `honoured`.
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
        # what is kept, and for how long
        ConfigDefinition(
            "cleanup.policy",
            LIST,
            ("delete",),
            "How old data goes: delete drops whole segments by age and size, compact keeps the last record of every "
            "key. Both may be given; with neither, everything is kept.",
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
            "How long compaction keeps a tombstone, so that a reader who started before it still learns of the "
            "removal.",
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
            "How long a record stays as it is before compaction may drop it.",
            at_least(0),
            (Synonym("log.cleaner.min.compaction.lag.ms", 0),),
        ),
        ConfigDefinition(
            "max.compaction.lag.ms",
            LONG,
            NEVER,
            "After how long a record is looked at by compaction even if little of the log is new.",
            at_least(1),
            (Synonym("log.cleaner.max.compaction.lag.ms", NEVER),),
        ),
        ConfigDefinition(
            "file.delete.delay.ms",
            LONG,
            MINUTE_MS,
            "How long Kafka keeps a file after it dropped the segment. Here a file goes when its last reader has let "
            "go of it.",
            at_least(0),
            (Synonym("log.segment.delete.delay.ms", MINUTE_MS),),
            honoured=False,
        ),
        # segments and indexes
        ConfigDefinition(
            "segment.bytes",
            INT,
            1 << 30,
            "How large a segment grows before the next one is opened.",
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
            "How old a segment gets before the next one is opened, even if it is not full.",
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
            "How large the index of one segment grows before the next segment is opened.",
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
        # reaching the disk
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
            "How long a record stays in the page cache at most before it is synced to the disk.",
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
        # what producers may send
        ConfigDefinition(
            "max.message.bytes",
            INT,
            (1 << 20) + 12,
            "How large a record batch may be, compressed and with its header; never larger than 1 GiB less 64 KiB, "
            "which is as much as reaches a follower.",
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
            "How hard gzip tries where compression.type is gzip.",
            GZIP_LEVELS,
            (Synonym("compression.gzip.level", -1),),
        ),
        ConfigDefinition(
            "compression.lz4.level",
            INT,
            9,
            "How hard lz4 tries where compression.type is lz4.",
            between(1, 17),
            (Synonym("compression.lz4.level", 9),),
        ),
        ConfigDefinition(
            "compression.zstd.level",
            INT,
            3,
            "How hard zstd tries where compression.type is zstd; negative levels are faster.",
            between(-131_072, 22),
            (Synonym("compression.zstd.level", 3),),
        ),
        ConfigDefinition(
            "message.timestamp.type",
            STRING,
            "CreateTime",
            "Whose time a record carries: CreateTime is the producer's, LogAppendTime ours when it arrives.",
            one_of("CreateTime", "LogAppendTime"),
            (Synonym("log.message.timestamp.type", "CreateTime"),),
        ),
        ConfigDefinition(
            "message.timestamp.before.max.ms",
            LONG,
            NEVER,
            "How far a producer's timestamp may lie behind our clock before its batch is refused.",
            at_least(0),
            (Synonym("log.message.timestamp.before.max.ms", NEVER),),
        ),
        ConfigDefinition(
            "message.timestamp.after.max.ms",
            LONG,
            HOUR_MS,
            "How far a producer's timestamp may lie ahead of our clock before its batch is refused.",
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
            "Whether a replica that may lack committed records can be elected when no other is left; records may be "
            "lost then.",
            None,
            (Synonym("unclean.leader.election.enable", False),),
        ),
        ConfigDefinition(
            "replication.policy",
            STRING,
            LIVE,
            "When a record is committed: live waits for every live replica, majority for more than half of all, "
            "nrw:N,R,W for W stores of N. Chosen when the topic is created: what one policy committed another might "
            "not find again. Tailrace's own.",
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
            "How many records a follower may be behind before it leaves the live replica set, so that acks=all no "
            "longer waits for it; it enters again when it has caught up. Tailrace's own.",
            at_least(1),
            (Synonym("lrs.max.lag.records", 1_000_000),),
        ),
        ConfigDefinition(
            "lrs.max.lag.ms",
            LONG,
            10_000,
            "For how long a follower may not have been at its leader's log end before it leaves the live replica set. "
            "Tailrace's own per topic; Kafka has it for a broker, as replica.lag.time.max.ms with 30000.",
            at_least(1),
            (Synonym("replica.lag.time.max.ms", 10_000),),
        ),
        ConfigDefinition(
            "consumer.consistency",
            STRING,
            "committed",
            "How far consumers read: committed stops at the high watermark; uncommitted goes on to the end of the "
            "leader's log, where records may still be lost when another leads: discouraged. Tailrace's own.",
            one_of("committed", "uncommitted"),
        ),
        ConfigDefinition(
            "leader.replication.throttled.replicas",
            LIST,
            (),
            "For which replicas the leader limits what it sends to followers.",
            THROTTLED_REPLICAS,
            honoured=False,
        ),
        ConfigDefinition(
            "follower.replication.throttled.replicas",
            LIST,
            (),
            "For which replicas the follower limits what it takes from the leader.",
            THROTTLED_REPLICAS,
            honoured=False,
        ),
        # old segments on shelves: on SPUs that are not replicas
        ConfigDefinition(
            "remote.storage.enable",
            BOOLEAN,
            False,
            "Whether segments that are sealed and committed are put on shelves, which are copies on SPUs that are not "
            "replicas, so that a partition may be larger than a disk: local.retention.ms and local.retention.bytes say "
            "when its replicas drop what is there. Once it is false again nothing more is put on shelves; what is "
            "there is read on, and goes by retention. Not together with compaction, nor with unclean elections.",
        ),
        ConfigDefinition(
            "remote.log.copy.disable",
            BOOLEAN,
            False,
            "Whether nothing more is put on shelves, although remote.storage.enable is true.",
        ),
        ConfigDefinition(
            "remote.log.delete.on.disable",
            BOOLEAN,
            False,
            "Whether turning remote.storage.enable off removes what is on shelves. Here it stays there, and goes by "
            "retention.",
            honoured=False,
        ),
        ConfigDefinition(
            "local.retention.ms",
            LONG,
            -2,
            "How long replicas keep a segment that is on a shelf; -2 is as retention.ms says, -1 for as long as the "
            "partition has it. Where remote.storage.enable is true it is at most retention.ms.",
            at_least(-2),
            (Synonym("log.local.retention.ms", -2),),
        ),
        ConfigDefinition(
            "local.retention.bytes",
            LONG,
            -2,
            "How large a replica may grow before the oldest of its segments that are on a shelf are dropped from it; "
            "-2 is as retention.bytes says, -1 sets no bound. Where remote.storage.enable is true it is at most "
            "retention.bytes.",
            at_least(-2),
            (Synonym("log.local.retention.bytes", -2),),
        ),
    )
)
