"""Converts SPUs and SPU groups to and from documents.

The names and defaults of the fields are those of the design documents.
"""

import re

from tailrace.protocol.codec.decoder_source import STRING_BYTES_MAX
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address, may_be_host
from tailrace.security.settings.security_protocol import SecurityProtocol

from .document_fields import INT_MAX, FieldError, Fields, size_text
from .objects import (
    GIBIBYTE,
    GROUP_REPLICAS_MAX,
    Encryption,
    PrivateEndpoint,
    PublicEndpoint,
    PublicListener,
    Spu,
    SpuGroup,
    SpuGroupResolution,
    SpuGroupSpec,
    SpuGroupStatus,
    SpuResolution,
    SpuSpec,
    SpuStatus,
    SpuTemplate,
    SpuType,
)

PORT_MAX = 65535
NAME_CHARACTERS_MAX = 249

_GROUP_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_DEFAULT_PUBLIC = PublicEndpoint()
_DEFAULT_PRIVATE = PrivateEndpoint()

Document = dict[str, object]


def spu_document(spu: Spu) -> Document:
    """Returns an SPU as a document."""
    spec: Document = {"spuId": int(spu.spec.id), "spuType": spu.spec.type.value}
    spec |= _common_document(spu.spec, default_size_bytes=None)
    if spu.spec.group is not None:
        spec["group"] = spu.spec.group
    status: Document = {"resolution": spu.status.resolution.value}
    if spu.status.incarnation:
        status["incarnation"] = spu.status.incarnation
    if spu.status.store_incarnation:
        status["storeIncarnation"] = spu.status.store_incarnation
    if spu.status.listeners:
        status["listeners"] = [_listener_document(each) for each in spu.status.listeners]
    if spu.status.private is not None:
        private = {"host": spu.status.private.host, "port": spu.status.private.port}
        status["private"] = private | _protocol_document(spu.status.private_protocol)
    if spu.status.reason:
        status["reason"] = spu.status.reason
    return {"name": str(spu.spec.id), "spec": spec, "status": status}


def _listener_document(listener: PublicListener) -> Document:
    document: Document = {"name": listener.name, "host": listener.host, "port": listener.port}
    if listener.on_all_addresses:
        document["onAllAddresses"] = True
    return document | _protocol_document(listener.protocol)


def _protocol_document(protocol: SecurityProtocol) -> Document:
    return {} if protocol is SecurityProtocol.PLAINTEXT else {"protocol": protocol.value}


def read_spu(whole: Fields, spec: Fields) -> Spu:
    """Reads an SPU. Raises FieldError."""
    spu_id = SpuId(spec.number("spuId", noun="an id"))
    name = whole.text("name", str(spu_id))
    if name != str(spu_id):
        raise whole.fault("name", f"{name!r} is not the SPU's id, {spu_id}")
    size_bytes, log_directory = _storage(spec, None)
    spu_spec = SpuSpec(
        spu_id,
        spec.choice("spuType", SpuType, SpuType.CUSTOM),
        _rack(spec),
        _public(spec),
        _private(spec),
        size_bytes,
        log_directory,
        read_group_name(spec, "group") if spec.has("group") else None,
        spec.texts("configs"),
    )
    # `tailrace spu describe` adds what the SPU reports about itself, and its output can be applied again.
    whole.raw("controllers")
    return Spu(spu_spec, _spu_status(whole))


def check_spu(spec: SpuSpec) -> None:
    """Refuses fields of an SPU that would have no effect. Raises FieldError."""
    _check_endpoint(spec.public, "")
    if spec.type is SpuType.CUSTOM and spec.log_directory is not None:
        raise FieldError(
            f"storage.logDir: {spec.log_directory!r} would have no effect, because the SC does not start a custom SPU; "
            f"leave it out, and start the SPU with `tailrace serve spu --data {spec.log_directory}`"
        )
    if spec.type is SpuType.CUSTOM and spec.configs:
        raise FieldError(
            "configs: they would have no effect, because the SC does not start a custom SPU; leave them out, and start "
            "the SPU with `tailrace serve spu --set NAME=VALUE`"
        )


def check_template(template: SpuTemplate) -> None:
    """Refuses fields of a group's template that would have no effect. Raises FieldError."""
    _check_endpoint(template.public, "template.")


def _check_endpoint(public: PublicEndpoint, path: str) -> None:
    if len(public.ingress) > 1:
        raise FieldError(
            f"{path}publicEndpoint.ingress: clients are told one host, and {len(public.ingress)} are given; keep one"
        )


def spu_group_document(group: SpuGroup) -> Document:
    """Returns an SPU group as a document."""
    spec: Document = {
        "replicas": group.spec.replicas,
        "minId": int(group.spec.min_id),
        "template": _common_document(group.spec.template, default_size_bytes=GIBIBYTE),
    }
    status: Document = {"resolution": group.status.resolution.value}
    if group.status.reason:
        status["reason"] = group.status.reason
    return {"name": group.name, "spec": spec, "status": status}


def read_spu_group(whole: Fields, spec: Fields) -> SpuGroup:
    """Reads an SPU group. Raises FieldError."""
    name = read_group_name(whole, "name")
    group_spec = SpuGroupSpec(
        spec.number("replicas", 1, GROUP_REPLICAS_MAX, default=1),
        SpuId(spec.number("minId", default=0, noun="an id")),
        # The template's fields may also stand beside the others, as in a flattened example of the design documents.
        _template(spec.fields("template") if spec.has("template") else spec),
    )
    if group_spec.min_id + group_spec.replicas - 1 > INT_MAX:
        raise spec.fault("minId", f"{group_spec.replicas} ids from {group_spec.min_id} on would exceed {INT_MAX}")
    status = whole.fields("status")
    group_status = SpuGroupStatus(
        status.choice("resolution", SpuGroupResolution, SpuGroupResolution.INIT), status.text("reason", "")
    )
    status.end()
    return SpuGroup(name, group_spec, group_status)


def read_group_name(fields: Fields, field: str) -> str:
    """Reads the name of an SPU group. Raises FieldError."""
    name = fields.text(field)
    if _GROUP_NAME.fullmatch(name) is None:
        raise fields.fault(
            field, f"{name!r} cannot name an SPU group: 1 to {NAME_CHARACTERS_MAX} ASCII letters, digits, '.', '_', '-'"
        )
    return name


def _spu_status(whole: Fields) -> SpuStatus:
    status = whole.fields("status")
    listeners = []
    for listener in status.each("listeners") or ():
        place = listener.text("name"), _host(listener, "host"), _port(listener)
        on_all_addresses = listener.flag("onAllAddresses", default=False)
        listeners.append(PublicListener(*place, on_all_addresses, _protocol(listener)))
        listener.end()
    private, private_protocol = None, SecurityProtocol.PLAINTEXT
    if status.has("private"):
        address = status.fields("private")
        private, private_protocol = Address(_host(address, "host"), _port(address)), _protocol(address)
        address.end()
    spu_status = SpuStatus(
        status.choice("resolution", SpuResolution, SpuResolution.INIT),
        status.text("incarnation", ""),
        status.text("storeIncarnation", ""),
        tuple(listeners),
        private,
        status.text("reason", ""),
        private_protocol,
    )
    status.end()
    return spu_status


def _template(template: Fields) -> SpuTemplate:
    size_bytes, log_directory = _storage(template, GIBIBYTE)
    read = SpuTemplate(
        _rack(template), _public(template), _private(template), size_bytes, log_directory, template.texts("configs")
    )
    template.end()
    return read


def _common_document(spec: SpuSpec | SpuTemplate, default_size_bytes: int | None) -> Document:
    """Returns the fields that an SPU and the template of a group share."""
    document: Document = {}
    if spec.rack is not None:
        document["rack"] = spec.rack
    storage: Document = {}
    if spec.size_bytes is not None or default_size_bytes is not None:
        storage["size"] = size_text(spec.size_bytes)
    if spec.log_directory is not None:
        storage["logDir"] = spec.log_directory
    if storage:
        document["storage"] = storage
    document["publicEndpoint"] = {
        "port": spec.public.port,
        "ingress": [{"hostname": hostname} for hostname in spec.public.ingress],
    } | _encryption_document(spec.public.encryption)
    document["privateEndpoint"] = {
        "port": spec.private.port,
        "host": spec.private.host,
    } | _encryption_document(spec.private.encryption)
    if spec.configs:
        document["configs"] = dict(spec.configs)
    return document


def _storage(spec: Fields, default_size_bytes: int | None) -> tuple[int | None, str | None]:
    """Reads the size and the log directory, under `storage` or beside it, as in the flattened examples."""
    storage = spec.fields("storage")
    for name in ("size", "logDir"):
        if storage.has(name) and spec.has(name):
            raise spec.fault(name, f"it is also given as {storage.path_of(name)}")
    size_bytes = storage.size("size", spec.size("size", default_size_bytes))
    beside = spec.optional_text("logDir")
    log_directory = storage.optional_text("logDir")
    storage.end()
    return size_bytes, beside if log_directory is None else log_directory


def _rack(spec: Fields) -> str | None:
    rack = spec.optional_text("rack")
    if rack == "":
        raise spec.fault("rack", "it is empty; leave it out for an SPU in no rack")
    if rack is not None and (size := len(rack.encode())) > STRING_BYTES_MAX:
        raise spec.fault("rack", f"it has {size} bytes; clients can be told at most {STRING_BYTES_MAX}")
    return rack


def _public(spec: Fields) -> PublicEndpoint:
    endpoint = spec.fields("publicEndpoint")
    port = _port(endpoint, _DEFAULT_PUBLIC.port)
    listed = endpoint.each("ingress")
    ingress = _DEFAULT_PUBLIC.ingress
    if listed is not None:
        ingress = tuple(_host(each, "hostname") for each in listed)
        for each in listed:
            each.end()
    encryption = _encryption(endpoint)
    endpoint.end()
    return PublicEndpoint(port, ingress, encryption)


def _private(spec: Fields) -> PrivateEndpoint:
    endpoint = spec.fields("privateEndpoint")
    read = PrivateEndpoint(
        _port(endpoint, _DEFAULT_PRIVATE.port),
        _host(endpoint, "host", _DEFAULT_PRIVATE.host),
        _encryption(endpoint),
    )
    endpoint.end()
    return read


def _encryption(endpoint: Fields) -> Encryption | None:
    if not endpoint.has("encryption"):
        return None
    return endpoint.choice("encryption", Encryption, Encryption.PLAINTEXT)


def _encryption_document(encryption: Encryption | None) -> Document:
    return {} if encryption is None else {"encryption": encryption.value}


def _protocol(fields: Fields) -> SecurityProtocol:
    return fields.choice("protocol", SecurityProtocol, SecurityProtocol.PLAINTEXT)


def _port(fields: Fields, default: int | None = None) -> int:
    return fields.number("port", 0, PORT_MAX, default=default, noun="a port")


def _host(fields: Fields, field: str, default: str | None = None) -> str:
    host = fields.text(field, default)
    if not may_be_host(host):
        raise fields.fault(field, f"{host!r} is not the name or the address of a host")
    return host
