"""Reads a function configuration in Nuclio's shape (`function.yaml`) into the settings of a trigger. Pure.

Files that were written for Nuclio are read unchanged. Deprecated fields, and fields for containers and Kubernetes, are
ignored with a warning. A field that Nuclio does not know either is an error, as is a value that cannot be right; both
name the line. As in Nuclio, upper and lower case are the same in names of fields.
"""

import base64
import binascii
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple, TypeVar

from msgspec import Struct

from . import nuclio_fields as fields
from .setting_values import ValueRefusedError, shown, whole
from .stream_urls import read_stream_url, topic_of_path
from .trigger_config import Acknowledgement
from .trigger_settings import Given, Layer, TriggerConfigError, guess_text
from .yaml_lines import Value, YamlError, read_yaml

T = TypeVar("T")

GENERATED_KEY = "$generate"
"""A password that stands for the access key in the environment."""
KEY_VARIABLE = "V3IO_ACCESS_KEY"
BATCH_SIZE = 10
BATCH_SECONDS = "1s"
"""The size and the time of a batch that is enabled without them, as in Nuclio."""
_POLLING_MS_MAX = 3_600_000


class FunctionFile(Struct, frozen=True):
    """What the configuration file of a function says."""

    layer: Layer
    warnings: tuple[str, ...]
    """Sentences about fields that are ignored."""
    handler: str | None
    """The module and the function in Nuclio's form `module:function`."""
    source: str | None
    """The source of the function, if the file has it inside."""


class _Field(NamedTuple):
    name: str
    """The name as the file spells it."""
    value: Value
    place: str


def read_function_yaml(
    text: str, origin: str, *, trigger: str | None = None, environment: Mapping[str, str] | None = None
) -> FunctionFile:
    """Reads the text of a file. `trigger` chooses one of several triggers of streams by its name.

    Errors call the file `origin`. Raises TriggerConfigError.
    """
    try:
        root = read_yaml(text, origin)
    except YamlError as error:
        raise TriggerConfigError(str(error)) from error
    return _FunctionReader(origin, environment or {}).read(root, trigger)


class _FunctionReader:
    """Collects settings and warnings while it goes through the document."""

    def __init__(self, origin: str, environment: Mapping[str, str]) -> None:
        self._origin = origin
        self._environment = environment
        self._layer: dict[str, Given] = {}
        self._warnings: list[str] = []
        self._annotations: Mapping[str, str] = {}
        self._handler: str | None = None
        self._source: str | None = None

    def read(self, root: Value, wanted: str | None) -> FunctionFile:
        top = self._fields(root, self._origin, fields.FUNCTION_FIELDS)
        if "spec" not in top:
            raise TriggerConfigError(f"{self._origin}: the field spec is missing")
        if (kind := top.get("kind")) is not None and kind.value.content not in ("Function", "NuclioFunction"):
            raise TriggerConfigError(f"{kind.place}: {shown(kind.value.plain())} is not NuclioFunction")
        if "metadata" in top:
            self._metadata(top["metadata"])
        self._spec(top["spec"], wanted)
        return FunctionFile(self._layer, tuple(self._warnings), self._handler, self._source)

    # the function

    def _metadata(self, metadata: _Field) -> None:
        found = self._fields(metadata.value, metadata.place, fields.METADATA_FIELDS)
        if "name" in found:
            self._give("name", found["name"])
        if "annotations" in found:
            values = found["annotations"].value.plain()
            self._annotations = {name: str(value) for name, value in values.items()} if isinstance(values, dict) else {}

    def _spec(self, spec: _Field, wanted: str | None) -> None:
        known = fields.SPEC_SPECIAL | fields.SPEC_SILENT | fields.SPEC_WITHOUT_EFFECT
        found = self._fields(spec.value, spec.place, known)
        self._warn_without_effect(found, fields.SPEC_WITHOUT_EFFECT)
        runtime = found.get("runtime")
        if runtime is not None and not str(runtime.value.content).lower().startswith("python"):
            raise TriggerConfigError(
                f"{runtime.place}: Tailrace runs functions in Python, and not in {shown(runtime.value.plain())}"
            )
        if (disable := found.get("disable")) is not None and disable.value.content is True:
            raise TriggerConfigError(f"{disable.place}: the function is disabled")
        if "handler" in found:
            self._handler = self._text(found["handler"])
        if "eventtimeout" in found and found["eventtimeout"].value.content not in (None, ""):
            self._give("event_timeout", found["eventtimeout"])
        if "env" in found:
            self._env(found["env"])
        if "build" in found:
            self._build(found["build"])
        self._replicas(found)
        if "triggers" not in found:
            raise TriggerConfigError(f"{spec.place}: the field triggers is missing")
        self._trigger(self._chosen(found["triggers"], wanted))

    def _replicas(self, found: Mapping[str, _Field]) -> None:
        """Reads the number of replicas by Nuclio's rules: a fixed number wins, and one bound stands for both."""
        fixed, least, largest = (found.get(name) for name in ("replicas", "minreplicas", "maxreplicas"))
        if fixed is not None:
            self._give("replicas", fixed)
            for bound in (least, largest):
                if bound is not None:
                    self._warnings.append(f"{bound.place} has no effect beside replicas")
            return
        upper = largest or least
        if upper is not None:
            self._give("replicas", upper)
        if least is not None and largest is not None and least.value.content != largest.value.content:
            self._give("min_replicas", least)

    def _env(self, env: _Field) -> None:
        variables: dict[str, object] = {}
        for item in self._items(env):
            known = frozenset({"name", "value", "valuefrom"})
            entry = self._fields(item, f"{self._origin}: line {item.line}: env", known)
            if "name" not in entry:
                raise TriggerConfigError(f"{self._origin}: line {item.line}: the variable has no name")
            name = self._text(entry["name"])
            if "valuefrom" in entry:
                self._warnings.append(
                    f"{entry['valuefrom'].place}: {name} keeps the value that it has in the environment of the replica"
                )
            else:
                content = entry["value"].value.content if "value" in entry else ""
                variables[name] = "" if content is None else _as_text(content)
        if variables:
            self._layer["environment"] = Given(variables, env.place)

    def _build(self, build: _Field) -> None:
        content = build.value.content
        entries = {name.lower(): value for name, value in content.items()} if isinstance(content, dict) else {}
        code = entries.pop("functionsourcecode", None)
        if code is not None and code.content:
            try:
                self._source = base64.b64decode(str(code.content), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError) as error:
                raise TriggerConfigError(
                    f"{self._origin}: line {code.line}: functionSourceCode is not text in Base64"
                ) from error
        if entries:
            self._warnings.append(f"{build.place} has no effect: install what the function imports yourself")

    # the trigger

    def _chosen(self, triggers: _Field, wanted: str | None) -> _Field:
        if not isinstance(triggers.value.content, dict):
            raise TriggerConfigError(f"{triggers.place} must have fields: the names of triggers")
        streams: dict[str, _Field] = {}
        for name, value in triggers.value.content.items():
            if (reason := self._why_no_stream(name, value)) is None:
                streams[name] = _Field(name, value, self._place(name, value))
            elif name == wanted:
                raise TriggerConfigError(reason)
            else:
                self._warnings.append(reason)
        if wanted is not None:
            if wanted not in streams:
                raise TriggerConfigError(
                    f"{triggers.place}: there is no trigger {wanted}{guess_text(wanted, list(streams))}"
                )
            return streams[wanted]
        if not streams:
            reasons = [each for each in self._warnings if ": trigger " in each]
            raise TriggerConfigError(reasons[0] if reasons else f"{triggers.place}: no trigger reads a stream")
        if len(streams) > 1:
            raise TriggerConfigError(
                f"{triggers.place}: several triggers read a stream: {', '.join(streams)}: choose one with --trigger"
            )
        return next(iter(streams.values()))

    def _why_no_stream(self, name: str, value: Value) -> str | None:
        """Returns why the trigger is ignored, or None if it reads a stream."""
        place = f"{self._origin}: line {value.line}: trigger {name}"
        content = value.content if isinstance(value.content, dict) else {}
        entries = {each.lower(): field for each, field in content.items()}
        kind = entries["kind"].content if "kind" in entries else None
        word = str(kind).lower()
        if word not in fields.STREAM_KINDS and word not in fields.OTHER_KINDS:
            what = "the kind is missing" if kind is None else f"there is no kind {shown(kind)}"
            line = value.line if kind is None else entries["kind"].line
            raise TriggerConfigError(
                f"{self._origin}: line {line}: trigger {name}: {what}: expected v3ioStream or kafka-cluster"
            )
        if "disabled" in entries and entries["disabled"].content is True:
            return f"{place} is ignored, because it is disabled"
        if word in fields.OTHER_KINDS:
            return f"{place} is ignored, because its kind {kind} reads no stream"
        return None

    def _trigger(self, trigger: _Field) -> None:
        known = (
            fields.TRIGGER_SPECIAL
            | fields.TRIGGER_SILENT
            | fields.TRIGGER_SETTINGS.keys()
            | fields.DEPRECATED.keys()
            | fields.TRIGGER_WITHOUT_EFFECT
        )
        found = self._fields(trigger.value, trigger.place, known)
        self._warn_without_effect(found, fields.TRIGGER_WITHOUT_EFFECT)
        for name, why in fields.DEPRECATED.items():
            if name in found:
                self._warnings.append(f"{found[name].place} is deprecated and ignored: {why}")
        self._from_annotations(fields.STREAM_KINDS[str(found["kind"].value.content).lower()])
        if "url" in found and found["url"].value.content not in (None, ""):
            self._url(found["url"])
        self._settings(found, fields.TRIGGER_SETTINGS)
        self._access_key()
        if "explicitackmode" in found:
            self._explicit_mode(found["explicitackmode"])
        if "batch" in found:
            self._batch(found["batch"])
        if "attributes" in found:
            self._attributes(found["attributes"])

    def _url(self, url: _Field) -> None:
        read = self._refusing(url, read_stream_url)
        for name, value in (("topic", read.topic), ("group", read.group), ("brokers", read.brokers)):
            if value:
                self._layer[name] = Given(value, url.place)

    def _access_key(self) -> None:
        """Takes the access key from the environment if the password stands for it."""
        given = self._layer.get("access_key")
        if given is None or given.value != GENERATED_KEY:
            return
        if not self._environment.get(KEY_VARIABLE):
            raise TriggerConfigError(
                f"{given.place}: {GENERATED_KEY} needs the variable {KEY_VARIABLE}, which is not set"
            )
        self._layer["access_key"] = Given(self._environment[KEY_VARIABLE], given.place)

    def _explicit_mode(self, field: _Field) -> None:
        mode = fields.EXPLICIT_MODES.get(str(field.value.content).lower())
        if mode is None:
            raise TriggerConfigError(
                f"{field.place}: {shown(field.value.plain())} is not enable, disable or explicitOnly"
            )
        if mode is not Acknowledgement.AUTOMATIC:
            self._layer["acknowledgement"] = Given(str(mode), field.place)

    def _batch(self, batch: _Field) -> None:
        found = self._fields(batch.value, batch.place, frozenset({"mode", "batchsize", "timeout"}))
        mode = str(found["mode"].value.content).lower() if "mode" in found else "disable"
        if mode not in ("enable", "disable"):
            raise TriggerConfigError(f"{found['mode'].place}: {shown(mode)} is neither enable nor disable")
        if mode == "enable":
            self._layer["batch_size"] = Given(BATCH_SIZE, batch.place)
            self._layer["batch_seconds"] = Given(BATCH_SECONDS, batch.place)
            self._settings(found, {"batchsize": "batch_size", "timeout": "batch_seconds"})

    # its attributes

    def _attributes(self, attributes: _Field) -> None:
        if attributes.value.content is None:
            return
        settings = fields.ATTRIBUTE_SETTINGS
        known = settings.keys() | fields.ATTRIBUTE_SPECIAL | fields.ATTRIBUTE_WITHOUT_EFFECT
        found = self._fields(attributes.value, attributes.place, known)
        self._warn_without_effect(found, fields.ATTRIBUTE_WITHOUT_EFFECT)
        self._settings(found, settings)
        special: Mapping[str, Callable[[_Field], None]] = {
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

    def _topics(self, field: _Field) -> None:
        topics = field.value.plain()
        topics = [topics] if isinstance(topics, str) else topics
        if not isinstance(topics, list) or len(topics) != 1:
            raise TriggerConfigError(
                f"{field.place}: a trigger reads one topic, and {shown(topics)} is not one: make a trigger for each"
            )
        self._layer["topic"] = Given(topics[0], field.place)

    def _stream_path(self, field: _Field) -> None:
        self._layer["topic"] = Given(self._refusing(field, topic_of_path), field.place)

    def _polling_ms(self, field: _Field) -> None:
        milliseconds = self._refusing(field, whole(0, _POLLING_MS_MAX))
        assert isinstance(milliseconds, int)
        self._layer["polling_interval"] = Given(milliseconds / 1000, field.place)

    def _allocation_mode(self, field: _Field) -> None:
        mode = str(field.value.content).lower()
        if mode not in ("pool", "static"):
            raise TriggerConfigError(f"{field.place}: {shown(field.value.plain())} is neither pool nor static")
        if mode == "static":
            self._warnings.append(f"{field.place}: static has no effect: the next free worker handles any shard")

    def _window(self, field: _Field) -> None:
        if self._refusing(field, whole(0, 2**63 - 1)) != 0:
            raise TriggerConfigError(
                f"{field.place}: a window of handled events that are read again has no counterpart: use "
                "explicitAckMode, and acknowledge an event when it is not needed any more"
            )

    def _wait_at_rebalance(self, field: _Field) -> None:
        if "stop_timeout" in self._layer:
            self._warnings.append(f"{field.place} has no effect beside workerTerminationTimeout")
        else:
            self._give("stop_timeout", field)

    def _retry(self, field: _Field) -> None:
        found = self._fields(field.value, field.place, fields.RETRY_ATTRIBUTES.keys())
        self._settings(found, fields.RETRY_ATTRIBUTES)

    def _sasl(self, field: _Field) -> None:
        known = frozenset({"enable", "handshake", "user", "password", "mechanism", "oauth"})
        found = self._fields(field.value, field.place, known)
        if not self._is_enabled(found):
            return
        mechanism = found.get("mechanism")
        if "oauth" in found or (mechanism is not None and str(mechanism.value.content).lower() not in ("", "plain")):
            raise TriggerConfigError(f"{(mechanism or found['oauth']).place}: the only mechanism of SASL is plain")
        self._settings(found, {"user": "access_user", "password": "access_key"})

    def _tls(self, field: _Field) -> None:
        found = self._fields(
            field.value, field.place, frozenset({"enable", "insecureskipverify", "minimumversion", "minversion"})
        )
        if self._is_enabled(found):
            raise TriggerConfigError(f"{found['enable'].place}: triggers cannot use TLS yet")

    def _certificate(self, field: _Field) -> None:
        raise TriggerConfigError(f"{field.place}: triggers cannot use TLS yet")

    def _copied_record(self, field: _Field) -> None:
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
            place = f"{self._origin}: annotation {name}"
            key = rest.removeprefix(f"{word}-").replace("-", "")
            field = _Field(name, Value(text, 0), place)
            if key == "explicitackmode":
                self._explicit_mode(field)
            elif key == "windowsize":
                self._window(field)
            elif key in fields.ATTRIBUTE_SETTINGS:
                self._layer[fields.ATTRIBUTE_SETTINGS[key]] = Given(text, place)
            elif key == "tlsenabled" and text.lower() == "true":
                raise TriggerConfigError(f"{place}: triggers cannot use TLS yet")

    # pieces of documents

    def _fields(self, value: Value, place: str, known: Collection[str]) -> dict[str, _Field]:
        """Returns the fields of a mapping by their names in lower case. Refuses names that are not known."""
        if value.content is None:
            return {}
        if not isinstance(value.content, dict):
            raise TriggerConfigError(f"{place}: {shown(value.plain())} must have fields")
        found: dict[str, _Field] = {}
        for name, each in value.content.items():
            key = name.lower()
            field = _Field(name, each, self._place(name, each))
            if key not in known:
                raise TriggerConfigError(
                    f"{self._origin}: line {each.line}: there is no field {name}{self._guess(key, known)}"
                )
            if key in found:
                raise TriggerConfigError(f"{field.place} occurs twice, also as {found[key].name}")
            found[key] = field
        return found

    def _guess(self, key: str, known: Collection[str]) -> str:
        return guess_text(key, [*known], fields.SPELLINGS)

    def _place(self, name: str, value: Value) -> str:
        return f"{self._origin}: line {value.line}: {name}"

    def _items(self, field: _Field) -> Iterator[Value]:
        if not isinstance(field.value.content, list):
            raise TriggerConfigError(f"{field.place} must be a list")
        yield from field.value.content

    def _text(self, field: _Field) -> str:
        if not isinstance(field.value.content, str) or not field.value.content:
            raise TriggerConfigError(f"{field.place}: {shown(field.value.plain())} is not a text, or is empty")
        return field.value.content

    def _is_enabled(self, found: Mapping[str, _Field]) -> bool:
        return "enable" in found and str(found["enable"].value.content).lower() == "true"

    def _settings(self, found: Mapping[str, _Field], settings: Mapping[str, str]) -> None:
        given_here: dict[str, _Field] = {}
        for name, field in found.items():
            if name not in settings or field.value.content in (None, ""):
                continue
            setting = settings[name]
            other = given_here.setdefault(setting, field)
            if other.value.plain() != field.value.plain():
                raise TriggerConfigError(f"{field.place} contradicts {other.name} in line {other.value.line}")
            self._give(setting, field)

    def _give(self, setting: str, field: _Field) -> None:
        content = field.value.plain()
        # A number without a unit is no duration in a file: Nuclio would refuse it as well.
        self._layer[setting] = Given(_as_text(content) if isinstance(content, int | float) else content, field.place)

    def _refusing(self, field: _Field, read: Callable[[object], T]) -> T:
        content = field.value.plain()
        try:
            return read(content)
        except ValueRefusedError as error:
            raise TriggerConfigError(f"{field.place}: {shown(content)} {error}") from error

    def _warn_without_effect(self, found: Mapping[str, _Field], names: Collection[str]) -> None:
        self._warnings += [f"{found[name].place} has no effect in Tailrace" for name in found if name in names]


def _as_text(content: object) -> str:
    return str(content).lower() if isinstance(content, bool) else str(content)
