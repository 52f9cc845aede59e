"""The fields of Nuclio's function configuration, and what each means here. Pure.

Nuclio reads names of fields without regard to upper and lower case, so the tables have lower case.
"""

from collections.abc import Mapping

from .trigger_config import Acknowledgement
from .trigger_settings import RETRY_FIELDS, SETTINGS

STREAM_KINDS = {"v3iostream": "v3iostream", "kafka-cluster": "kafka", "kafka": "kafka"}
"""The kinds of triggers that read a stream, and the word for each in the names of annotations."""
OTHER_KINDS = frozenset(
    {"http", "cron", "kinesis", "nats", "eventhub", "mqtt", "partitioned-mqtt", "pubsub", "rabbit-mq"}
    | {"local-socket", "v3ioitempoller", "poller"}
)
"""The kinds of triggers of Nuclio that read no stream of ours."""

ACKNOWLEDGEMENT_MODES = {
    Acknowledgement.AUTOMATIC: "disable",
    Acknowledgement.EXPLICIT: "explicitOnly",
    Acknowledgement.EITHER: "enable",
}
"""The values of `explicitAckMode`."""
EXPLICIT_MODES = {word.lower(): mode for mode, word in ACKNOWLEDGEMENT_MODES.items()}

DEPRECATED = {
    "workeravailabilitytimeoutmilliseconds": "an event waits for a worker as long as it takes",
    "partitions": "shards are assigned to replicas automatically",
    "username": "the access key alone is used",
    "workerallocatorname": "each replica has one pool of workers",
}
"""Fields of a trigger that Nuclio has deprecated, and why they are not needed."""

TRIGGER_SETTINGS = {
    "numworkers": "max_workers",
    "maxworkers": "max_workers",
    "password": "access_key",
    "secret": "access_key",
    "workerterminationtimeout": "stop_timeout",
}
"""Fields of a trigger by their settings."""
TRIGGER_SPECIAL = frozenset({"kind", "url", "disabled", "attributes", "explicitackmode", "batch"})
TRIGGER_SILENT = frozenset({"class", "name", "annotations"})
TRIGGER_WITHOUT_EFFECT = frozenset(
    {"paths", "waitexplicitackduringrebalancetimeout", "total_tasks", "max_task_allocation"}
)

_NO_ATTRIBUTES = frozenset({"name", "replicas", "min_replicas", "environment", "access_key", "access_user"})
"""Settings that Nuclio's shape has elsewhere. Nuclio's Kafka trigger calls a private key of TLS `accessKey`."""

ATTRIBUTE_SETTINGS: Mapping[str, str] = {
    **{name.replace("_", ""): name for name in SETTINGS if name not in RETRY_FIELDS and name not in _NO_ATTRIBUTES},
    "consumergroup": "group",
    "seekto": "seek_to",
    "initialoffset": "seek_to",
    "sequencenumbercommitinterval": "commit_interval",
    "errors.deadletterqueue.topic.name": "dead_letters",
}
"""Attributes by their settings: each setting under its own name in camel case, Nuclio's names, and Kafka's."""
RETRY_ATTRIBUTES: Mapping[str, str] = {field.replace("_", ""): name for name, field in RETRY_FIELDS.items()}
"""The fields of the attribute `retry`. It is a structure, because `retryBackoff` of Nuclio means something else."""
ATTRIBUTE_SPECIAL = frozenset(
    {"topics", "containername", "streampath", "pollingintervalms", "workerallocationmode", "ackwindowsize"}
    | {"sasl", "tls", "accesskey", "cacert", "accesscertificate", "maxwaithandlerduringrebalance", "retry"}
    | {"errors.deadletterqueue.copy.record.enable"}
)
ATTRIBUTE_WITHOUT_EFFECT = frozenset(
    # v3io
    {"numtransportworkers", "sequencenumbershardwaitinterval", "recordbatchsizechan", "loglevel"}
    # Kafka
    | {"balancestrategy", "maxprocessingtime", "rebalancetimeout", "rebalanceretrybackoff", "rebalanceretrymax"}
    | {"retrybackoff", "maxwaittime", "fetchmin", "fetchdefault", "fetchmax", "channelbuffersize"}
    | {"secretpath", "version"}
)
"""Attributes of Nuclio's clients that have no counterpart here."""

SPEC_SPECIAL = frozenset(
    {"handler", "runtime", "env", "replicas", "minreplicas", "maxreplicas", "triggers", "eventtimeout", "build"}
    | {"disable"}
)
SPEC_SILENT = frozenset({"description", "version", "alias", "publish"})
SPEC_WITHOUT_EFFECT = frozenset(
    {"envfrom", "resources", "image", "imagehash", "targetcpu", "databindings", "volumes", "runregistry"}
    | {"imagepullsecrets", "runtimeattributes", "loggersinks", "dealeruri", "platform", "readinesstimeoutseconds"}
    | {"servicetype", "imagepullpolicy", "securitycontext", "serviceaccount", "scaletozero", "avatar"}
    | {"disabledefaulthttptrigger", "disablesensitivefieldsmasking", "devices", "affinity", "nodeselector", "nodename"}
    | {"tolerations", "priorityclassname", "preemptionpolicy", "preemptionmode", "deploymentstrategy", "hostipc"}
    | {"customscalingmetricspecs", "autoscalemetrics", "waitreadinesstimeoutbeforefailure", "sidecars"}
    | {"initcontainers", "workerterminationtimeout"}
)
"""Fields for containers and Kubernetes."""

FUNCTION_FIELDS = frozenset({"apiversion", "kind", "metadata", "spec", "status"})
METADATA_FIELDS = frozenset({"name", "namespace", "labels", "annotations", "resourceversion"})

_SPELLED = """
    apiVersion minReplicas maxReplicas eventTimeout explicitAckMode batchSize numWorkers maxWorkers
    workerTerminationTimeout consumerGroup initialOffset seekTo containerName streamPath pollingIntervalMs
    workerAllocationMode ackWindowSize sequenceNumberCommitInterval valueFrom
"""


def camel(name: str) -> str:
    """Returns the name of a setting as a field of a file: `batchSize` for `batch_size`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


SPELLINGS: Mapping[str, str] = {
    name.lower(): name for name in (*_SPELLED.split(), *map(camel, SETTINGS), *map(camel, RETRY_FIELDS.values()))
}
"""Names as people write them, by lower case, to suggest one for a mistyped name."""
