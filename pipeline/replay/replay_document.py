"""The document of a replay, which lies in its map: what is sent where, and as which producer.

It is written once, before the first record is sent, and never changes. So every later attempt sends the same records
with the same sequence numbers.
"""

import msgspec
from msgspec import Struct

from .record_choice import RecordChoice
from .replay_line import ReplayError
from .replay_position import ReplayPosition

VERSION = 1


class PartitionExtent(Struct, frozen=True):
    """What is replayed of one partition, and where in the target its first record may lie."""

    partition: int
    topic_id: str
    start: int
    end: int
    """The offset after the last record."""
    target_start: int

    @property
    def position(self) -> ReplayPosition:
        """The position before the first record."""
        return ReplayPosition(self.start, self.target_start)


class ReplaySettings(Struct, frozen=True):
    """What decides which records are sent, and how they are changed."""

    topic: str
    to_topic: str
    choice: RecordChoice = RecordChoice()
    masks: tuple[str, ...] = ()
    secret: str = ""
    """The fingerprint of the secret of hashes; empty if there is none."""
    starting_offsets: str = ""
    ending_offsets: str = ""
    partitions: tuple[int, ...] = ()


class ReplayDocument(Struct, frozen=True):
    """What the replay is."""

    settings: ReplaySettings
    to_topic_id: str
    """The id of the target topic; zeros if the brokers know no ids."""
    producer_id: int
    producer_epoch: int
    extents: tuple[PartitionExtent, ...]
    version: int = VERSION


def encode_document(document: ReplayDocument) -> bytes:
    """Returns the document as it is stored."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def decode_document(content: bytes, directory: str) -> ReplayDocument:
    """Reads a document. Raises ReplayError."""
    try:
        document = msgspec.json.decode(content, type=ReplayDocument)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ReplayError(f"{directory} is no map of a replay: {error}") from None
    if document.version != VERSION:
        raise ReplayError(
            f"the map {directory} has format version {document.version}, and this Tailrace knows {VERSION}: use the "
            "version of Tailrace that wrote it"
        )
    return document


def check_same(document: ReplayDocument, wanted: ReplaySettings, directory: str) -> None:
    """Raises ReplayError if the map belongs to another replay than the one that is wanted."""
    for name in ReplaySettings.__struct_fields__:
        if getattr(document.settings, name) != getattr(wanted, name):
            raise ReplayError(
                f"{directory} is the map of a replay with another {_NAMES.get(name, name)}: give the same options to "
                "go on with that replay, or another directory to begin a new one"
            )


def check_topic_id(document: ReplayDocument, to_topic_id: str) -> None:
    """Raises ReplayError if the target is another topic than the one to which the replay has sent."""
    if document.to_topic_id != to_topic_id:
        raise ReplayError(
            f"topic {document.settings.to_topic} was deleted and created again since this replay began: give another "
            "directory for the map to begin a new replay"
        )


_NAMES = {
    "masks": "mask",
    "partitions": "choice of partitions",
    "topic": "source topic",
    "choice": "window or key filter",
    "secret": "secret for hashes",
    "starting_offsets": "first offset",
    "ending_offsets": "last offset",
    "to_topic": "target topic",
}
