"""Reads a function configuration in Nuclio's shape (`function.yaml`) into the settings of a trigger. Pure.

Files that were written for Nuclio are read unchanged. Deprecated fields, and fields for containers and Kubernetes, are
ignored with a warning. A field that Nuclio does not know either is an error, as is a value that cannot be right; both
name the line. As in Nuclio, upper and lower case are the same in names of fields.
"""

import base64
import binascii
from collections.abc import Mapping

from msgspec import Struct

from . import nuclio_fields as fields
from .inline_config import FIELD, MARK, inline_document
from .setting_values import shown
from .trigger_settings import Given, Layer, TriggerConfigError, guess_text
from .trigger_yaml import TriggerReader
from .yaml_fields import Collected, Field, as_text
from .yaml_lines import Value, YamlError, read_yaml


class FunctionFile(Struct, frozen=True):
    """What the configuration file of a function says."""

    layer: Layer
    warnings: tuple[str, ...]
    """Sentences about fields that are ignored."""
    handler: str | None
    """The module and the function in Nuclio's form `module:function`."""
    source: str | None
    """The source of the function, if the file has it inside."""


def read_function_yaml(
    text: str, origin: str, *, trigger: str | None = None, environment: Mapping[str, str] | None = None
) -> FunctionFile:
    """Reads the text of a file. `trigger` chooses one of several triggers of streams by its name.

    Errors call the file `origin`. Raises TriggerConfigError.
    """
    return _FunctionReader(origin, environment or {}).read(_root(text, origin), trigger)


def read_inline_yaml(
    source: str, origin: str, *, trigger: str | None = None, environment: Mapping[str, str] | None = None
) -> FunctionFile | None:
    """Reads the configuration in the comments of a Python file; None if it has none. Raises TriggerConfigError."""
    text = inline_document(source)
    if text is None:
        return None
    root = _root(text, origin)
    if not isinstance(root.content, dict):
        raise TriggerConfigError(f"{origin}: the comments after {MARK} have no fields")
    if FIELD not in root.content:
        return None
    return _FunctionReader(origin, environment or {}).read(root.content[FIELD], trigger)


def _root(text: str, origin: str) -> Value:
    try:
        return read_yaml(text, origin)
    except YamlError as error:
        raise TriggerConfigError(str(error)) from error


class _FunctionReader:
    """Reads the document of a function, and chooses the trigger."""

    def __init__(self, origin: str, environment: Mapping[str, str]) -> None:
        self._file = Collected(origin)
        self._environment = environment
        self._annotations: Mapping[str, str] = {}
        self._handler: str | None = None
        self._source: str | None = None

    def read(self, root: Value, wanted: str | None) -> FunctionFile:
        top = self._file.fields(root, self._file.origin, fields.FUNCTION_FIELDS)
        if "spec" not in top:
            raise TriggerConfigError(f"{self._file.origin}: the field spec is missing")
        if (kind := top.get("kind")) is not None and kind.value.content not in ("Function", "NuclioFunction"):
            raise TriggerConfigError(f"{kind.place}: {shown(kind.value.plain())} is not NuclioFunction")
        if "metadata" in top:
            self._metadata(top["metadata"])
        self._spec(top["spec"], wanted)
        return FunctionFile(self._file.layer, tuple(self._file.warnings), self._handler, self._source)

    # the function

    def _metadata(self, metadata: Field) -> None:
        found = self._file.fields(metadata.value, metadata.place, fields.METADATA_FIELDS)
        if "name" in found:
            self._file.give("name", found["name"])
        if "annotations" in found:
            values = found["annotations"].value.plain()
            self._annotations = {name: str(value) for name, value in values.items()} if isinstance(values, dict) else {}

    def _spec(self, spec: Field, wanted: str | None) -> None:
        known = fields.SPEC_SPECIAL | fields.SPEC_SILENT | fields.SPEC_WITHOUT_EFFECT
        found = self._file.fields(spec.value, spec.place, known)
        self._file.warn_without_effect(found, fields.SPEC_WITHOUT_EFFECT)
        runtime = found.get("runtime")
        if runtime is not None and not str(runtime.value.content).lower().startswith("python"):
            raise TriggerConfigError(
                f"{runtime.place}: Tailrace runs functions in Python, and not in {shown(runtime.value.plain())}"
            )
        if (disable := found.get("disable")) is not None and disable.value.content is True:
            raise TriggerConfigError(f"{disable.place}: the function is disabled")
        if "handler" in found:
            self._handler = self._file.text(found["handler"])
        if "eventtimeout" in found and found["eventtimeout"].value.content not in (None, ""):
            self._file.give("event_timeout", found["eventtimeout"])
        if "env" in found:
            self._env(found["env"])
        if "build" in found:
            self._build(found["build"])
        self._replicas(found)
        if "triggers" not in found:
            raise TriggerConfigError(f"{spec.place}: the field triggers is missing")
        trigger = self._chosen(found["triggers"], wanted)
        TriggerReader(self._file, self._annotations, self._environment).read(trigger)

    def _replicas(self, found: Mapping[str, Field]) -> None:
        """Reads the number of replicas by Nuclio's rules: a fixed number wins, and one bound stands for both."""
        fixed, least, largest = (found.get(name) for name in ("replicas", "minreplicas", "maxreplicas"))
        if fixed is not None:
            self._file.give("replicas", fixed)
            for bound in (least, largest):
                if bound is not None:
                    self._file.warnings.append(f"{bound.place} has no effect alongside replicas")
            return
        upper = largest or least
        if upper is not None:
            self._file.give("replicas", upper)
        if least is not None and largest is not None and least.value.content != largest.value.content:
            self._file.give("min_replicas", least)

    def _env(self, env: Field) -> None:
        variables: dict[str, object] = {}
        for item in self._file.items(env):
            known = frozenset({"name", "value", "valuefrom"})
            entry = self._file.fields(item, f"{self._file.origin}: line {item.line}: env", known)
            if "name" not in entry:
                raise TriggerConfigError(f"{self._file.origin}: line {item.line}: the variable has no name")
            name = self._file.text(entry["name"])
            if "valuefrom" in entry:
                self._file.warnings.append(
                    f"{entry['valuefrom'].place}: {name} keeps the value that it has in the environment of the replica"
                )
            else:
                content = entry["value"].value.content if "value" in entry else ""
                variables[name] = "" if content is None else as_text(content)
        if variables:
            self._file.layer["environment"] = Given(variables, env.place)

    def _build(self, build: Field) -> None:
        content = build.value.content
        entries = {name.lower(): value for name, value in content.items()} if isinstance(content, dict) else {}
        code = entries.pop("functionsourcecode", None)
        if code is not None and code.content:
            try:
                self._source = base64.b64decode(str(code.content), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError) as error:
                raise TriggerConfigError(
                    f"{self._file.origin}: line {code.line}: functionSourceCode is not text in Base64"
                ) from error
        if entries:
            self._file.warnings.append(f"{build.place} has no effect: install what the function imports yourself")

    # the trigger

    def _chosen(self, triggers: Field, wanted: str | None) -> Field:
        if not isinstance(triggers.value.content, dict):
            raise TriggerConfigError(f"{triggers.place} must have fields: the names of triggers")
        streams: dict[str, Field] = {}
        for name, value in triggers.value.content.items():
            if (reason := self._why_no_stream(name, value)) is None:
                streams[name] = Field(name, value, self._file.place(name, value))
            elif name == wanted:
                raise TriggerConfigError(reason)
            else:
                self._file.warnings.append(reason)
        if wanted is not None:
            if wanted not in streams:
                raise TriggerConfigError(
                    f"{triggers.place}: there is no trigger {wanted}{guess_text(wanted, list(streams))}"
                )
            return streams[wanted]
        if not streams:
            reasons = [each for each in self._file.warnings if ": trigger " in each]
            raise TriggerConfigError(reasons[0] if reasons else f"{triggers.place}: no trigger reads a stream")
        if len(streams) > 1:
            raise TriggerConfigError(
                f"{triggers.place}: several triggers read a stream: {', '.join(streams)}: choose one with --trigger"
            )
        return next(iter(streams.values()))

    def _why_no_stream(self, name: str, value: Value) -> str | None:
        """Returns why the trigger is ignored, or None if it reads a stream."""
        place = f"{self._file.origin}: line {value.line}: trigger {name}"
        content = value.content if isinstance(value.content, dict) else {}
        entries = {each.lower(): field for each, field in content.items()}
        kind = entries["kind"].content if "kind" in entries else None
        word = str(kind).lower()
        if word not in fields.STREAM_KINDS and word not in fields.OTHER_KINDS:
            what = "the kind is missing" if kind is None else f"there is no kind {shown(kind)}"
            line = value.line if kind is None else entries["kind"].line
            raise TriggerConfigError(
                f"{self._file.origin}: line {line}: trigger {name}: {what}: expected v3ioStream or kafka-cluster"
            )
        if "disabled" in entries and entries["disabled"].content is True:
            return f"{place} is ignored, because it is disabled"
        if word in fields.OTHER_KINDS:
            return f"{place} is ignored, because its kind {kind} reads no stream"
        return None
