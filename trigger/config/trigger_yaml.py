"""Reads one trigger of a file in Nuclio's shape, with its attributes and annotations, into settings. Pure."""

from collections.abc import Callable, Mapping

from . import nuclio_fields as fields
from .setting_values import shown, whole
from .stream_urls import read_stream_url, topic_of_path
from .trigger_config import Acknowledgement
from .trigger_settings import Given, TriggerConfigError
from .yaml_fields import Collected, Field
from .yaml_lines import Value

GENERATED_KEY = "$generate"
"""A password that stands for the access key in the environment."""
KEY_VARIABLE = "V3IO_ACCESS_KEY"
BATCH_SIZE = 10
BATCH_SECONDS = "1s"
"""The size and the time of a batch that is enabled without them, as in Nuclio."""
_POLLING_MS_MAX = 3_600_000


class TriggerReader:
    """Reads a trigger into what a file has given so far."""

    def __init__(self, file: Collected, annotations: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self._file = file
        self._annotations = annotations
        self._environment = environment

    def read(self, trigger: Field) -> None:
        """Reads the trigger."""
        known = (
            fields.TRIGGER_SPECIAL
            | fields.TRIGGER_SILENT
            | fields.TRIGGER_SETTINGS.keys()
            | fields.DEPRECATED.keys()
            | fields.TRIGGER_WITHOUT_EFFECT
        )
        found = self._file.fields(trigger.value, trigger.place, known)
        self._file.warn_without_effect(found, fields.TRIGGER_WITHOUT_EFFECT)
        for name, why in fields.DEPRECATED.items():
            if name in found:
                self._file.warnings.append(f"{found[name].place} is deprecated and ignored: {why}")
        self._from_annotations(fields.STREAM_KINDS[str(found["kind"].value.content).lower()])
        if "url" in found and found["url"].value.content not in (None, ""):
            self._url(found["url"])
        self._file.settings(found, fields.TRIGGER_SETTINGS)
        self._access_key()
        if "explicitackmode" in found:
            self._explicit_mode(found["explicitackmode"])
        if "batch" in found:
            self._batch(found["batch"])
        if "attributes" in found:
            self._attributes(found["attributes"])

    def _url(self, url: Field) -> None:
        read = self._file.refusing(url, read_stream_url)
        for name, value in (("topic", read.topic), ("group", read.group), ("brokers", read.brokers)):
            if value:
                self._file.layer[name] = Given(value, url.place)

    def _access_key(self) -> None:
        """Takes the access key from the environment if the password stands for it."""
        given = self._file.layer.get("access_key")
        if given is None or given.value != GENERATED_KEY:
            return
        if not self._environment.get(KEY_VARIABLE):
            raise TriggerConfigError(
                f"{given.place}: {GENERATED_KEY} needs the variable {KEY_VARIABLE}, which is not set"
            )
        self._file.layer["access_key"] = Given(self._environment[KEY_VARIABLE], given.place)

    def _explicit_mode(self, field: Field) -> None:
        mode = fields.EXPLICIT_MODES.get(str(field.value.content).lower())
        if mode is None:
            raise TriggerConfigError(
                f"{field.place}: {shown(field.value.plain())} is not enable, disable or explicitOnly"
            )
        if mode is not Acknowledgement.AUTOMATIC:
            self._file.layer["acknowledgement"] = Given(str(mode), field.place)

    def _batch(self, batch: Field) -> None:
        found = self._file.fields(batch.value, batch.place, frozenset({"mode", "batchsize", "timeout"}))
        mode = str(found["mode"].value.content).lower() if "mode" in found else "disable"
        if mode not in ("enable", "disable"):
            raise TriggerConfigError(f"{found['mode'].place}: {shown(mode)} is neither enable nor disable")
        if mode == "enable":
            self._file.layer["batch_size"] = Given(BATCH_SIZE, batch.place)
            self._file.layer["batch_seconds"] = Given(BATCH_SECONDS, batch.place)
            self._file.settings(found, {"batchsize": "batch_size", "timeout": "batch_seconds"})

    # its attributes

    def _attributes(self, attributes: Field) -> None:
        if attributes.value.content is None:
            return
        settings = fields.ATTRIBUTE_SETTINGS
        known = settings.keys() | fields.ATTRIBUTE_SPECIAL | fields.ATTRIBUTE_WITHOUT_EFFECT
        found = self._file.fields(attributes.value, attributes.place, known)
        self._file.warn_without_effect(found, fields.ATTRIBUTE_WITHOUT_EFFECT)
        self._file.settings(found, settings)
        special: Mapping[str, Callable[[Field], None]] = {
            "topics": self._topics,
            "streampath": self._stream_path,
            "pollingintervalms": self._polling_ms,
            "workerallocationmode": self._allocation_mode,
            "ackwindowsize": self._window,
            "maxwaithandlerduringrebalance": self._wait_at_rebalance,
            "retry": self._retry,
            "sasl": self._sasl,
            "tls": self._tls,
            "accesskey": self._certificate,
            "cacert": self._certificate,
            "accesscertificate": self._certificate,
            "errors.deadletterqueue.copy.record.enable": self._copied_record,
        }
        for name, read in special.items():
            if name in found and found[name].value.content not in (None, ""):
                read(found[name])

    def _topics(self, field: Field) -> None:
        topics = field.value.plain()
        topics = [topics] if isinstance(topics, str) else topics
        if not isinstance(topics, list) or len(topics) != 1:
            raise TriggerConfigError(
                f"{field.place}: a trigger reads one topic, and {shown(topics)} is not one: make a trigger for each"
            )
        self._file.layer["topic"] = Given(topics[0], field.place)

    def _stream_path(self, field: Field) -> None:
        self._file.layer["topic"] = Given(self._file.refusing(field, topic_of_path), field.place)

    def _polling_ms(self, field: Field) -> None:
        milliseconds = self._file.refusing(field, whole(0, _POLLING_MS_MAX))
        assert isinstance(milliseconds, int)
        self._file.layer["polling_interval"] = Given(milliseconds / 1000, field.place)

    def _allocation_mode(self, field: Field) -> None:
        mode = str(field.value.content).lower()
        if mode not in ("pool", "static"):
            raise TriggerConfigError(f"{field.place}: {shown(field.value.plain())} is neither pool nor static")
        if mode == "static":
            self._file.warnings.append(f"{field.place}: static has no effect: the next free worker handles any shard")

    def _window(self, field: Field) -> None:
        if self._file.refusing(field, whole(0, 2**63 - 1)) != 0:
            raise TriggerConfigError(
                f"{field.place}: a window of handled events that are read again has no counterpart: use "
                "explicitAckMode, and acknowledge an event when it is not needed any more"
            )

    def _wait_at_rebalance(self, field: Field) -> None:
        if "stop_timeout" in self._file.layer:
            self._file.warnings.append(f"{field.place} has no effect alongside workerTerminationTimeout")
        else:
            self._file.give("stop_timeout", field)

    def _retry(self, field: Field) -> None:
        found = self._file.fields(field.value, field.place, fields.RETRY_ATTRIBUTES.keys())
        self._file.settings(found, fields.RETRY_ATTRIBUTES)

    def _sasl(self, field: Field) -> None:
        known = frozenset({"enable", "handshake", "user", "password", "mechanism", "oauth"})
        found = self._file.fields(field.value, field.place, known)
        if not self._file.is_enabled(found):
            return
        mechanism = found.get("mechanism")
        if "oauth" in found or (mechanism is not None and str(mechanism.value.content).lower() not in ("", "plain")):
            raise TriggerConfigError(f"{(mechanism or found['oauth']).place}: the only mechanism of SASL is plain")
        self._file.settings(found, {"user": "access_user", "password": "access_key"})

    def _tls(self, field: Field) -> None:
        found = self._file.fields(
            field.value, field.place, frozenset({"enable", "insecureskipverify", "minimumversion", "minversion"})
        )
        if self._file.is_enabled(found):
            raise TriggerConfigError(f"{found['enable'].place}: triggers cannot use TLS yet")

    def _certificate(self, field: Field) -> None:
        raise TriggerConfigError(f"{field.place}: triggers cannot use TLS yet")

    def _copied_record(self, field: Field) -> None:
        if str(field.value.content).lower() != "true":
            raise TriggerConfigError(
                f"{field.place}: a dead letter always has the key, value and headers of the record"
            )

    # annotations

    def _from_annotations(self, word: str) -> None:
        """Takes settings from annotations such as `nuclio.io/kafka-session-timeout`. Attributes override them."""
        for name, text in self._annotations.items():
            domain, _, rest = name.lower().partition("/")
            if domain not in ("nuclio.io", "custom.nuclio.io") or not rest.startswith(f"{word}-"):
                continue
            place = f"{self._file.origin}: annotation {name}"
            key = rest.removeprefix(f"{word}-").replace("-", "")
            field = Field(name, Value(text, 0), place)
            if key == "explicitackmode":
                self._explicit_mode(field)
            elif key == "windowsize":
                self._window(field)
            elif key in fields.ATTRIBUTE_SETTINGS:
                self._file.layer[fields.ATTRIBUTE_SETTINGS[key]] = Given(text, place)
            elif key == "tlsenabled" and text.lower() == "true":
                raise TriggerConfigError(f"{place}: triggers cannot use TLS yet")
