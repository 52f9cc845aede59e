import pytest

from tailrace.controller.objects.document_fields import FieldError
from tailrace.controller.objects.object_documents import document_of, parse_object, read_document
from tailrace.controller.objects.objects import (
    Encryption,
    PrivateEndpoint,
    PublicEndpoint,
    Spu,
    SpuGroup,
    SpuGroupResolution,
    SpuGroupSpec,
    SpuGroupStatus,
    SpuResolution,
    SpuSpec,
    SpuTemplate,
    SpuType,
)
from tailrace.protocol.ids import SpuId

SEED_ENDPOINTS: dict[str, object] = {
    "publicEndpoint": {"port": 9005, "ingress": [{"hostname": "localhost"}], "encryption": "TLS"},
    "privateEndpoint": {"port": 9006, "host": "localhost", "encryption": "TLS"},
}
SEED_STORAGES: list[dict[str, object]] = [
    {"storage": {"size": "2Gi", "logDir": "/var/lib/mylog"}},
    {"size": "2Gi", "logDir": "/var/lib/mylog"},
]


def _fault(kind: str, document: object, name: str | None = None) -> str:
    with pytest.raises(FieldError) as caught:
        parse_object(kind, document, name)
    return str(caught.value)


@pytest.mark.parametrize("storage", SEED_STORAGES)
def test_the_seeds_spu(storage: dict[str, object]) -> None:
    spu = read_document("spu", {"spuId": 100, "spuType": "Custom", "rack": "Zone1", **storage, **SEED_ENDPOINTS})
    assert spu == Spu(
        SpuSpec(
            SpuId(100),
            SpuType.CUSTOM,
            "Zone1",
            PublicEndpoint(9005, ("localhost",), Encryption.TLS),
            PrivateEndpoint(9006, "localhost", Encryption.TLS),
            2 * 1024**3,
            "/var/lib/mylog",
        )
    )
    assert document_of(spu)["spec"] == {
        "spuId": 100,
        "spuType": "Custom",
        "rack": "Zone1",
        **SEED_STORAGES[0],
        **SEED_ENDPOINTS,
    }


def test_the_seeds_status_of_an_spu() -> None:
    spu = parse_object("spu", {"spec": {"spuId": 100}, "status": {"resolution": "online"}})
    assert isinstance(spu, Spu)
    assert spu.status.resolution is SpuResolution.ONLINE


@pytest.mark.parametrize("storage", SEED_STORAGES)
def test_the_seeds_group(storage: dict[str, object]) -> None:
    group = parse_object("spu-group", {"replicas": 2, "minId": 11, "template": storage | SEED_ENDPOINTS}, "main")
    template = SpuTemplate(
        None,
        PublicEndpoint(encryption=Encryption.TLS),
        PrivateEndpoint(encryption=Encryption.TLS),
        2 * 1024**3,
        "/var/lib/mylog",
    )
    assert group == SpuGroup("main", SpuGroupSpec(2, SpuId(11), template))
    assert parse_object("spu-group", {"replicas": 2, "minId": 11, **storage, **SEED_ENDPOINTS}, "main") == group


def test_the_seeds_status_of_a_group() -> None:
    group = parse_object(
        "spu-group", {"name": "main", "spec": {}, "status": {"resolution": "Invalid", "reason": "why"}}
    )
    assert isinstance(group, SpuGroup)
    assert group.status == SpuGroupStatus(SpuGroupResolution.INVALID, "why")


def test_defaults() -> None:
    assert parse_object("spu", {"spuId": 0}) == Spu(SpuSpec(SpuId(0)))
    assert parse_object("spu-group", {}, "main") == SpuGroup("main", SpuGroupSpec(1, SpuId(0), SpuTemplate()))
    group = parse_object("spu-group", {"template": {"storage": {}}}, "main")
    assert isinstance(group, SpuGroup)
    assert group.spec.template.size_bytes == 1024**3
    assert group.spec.template.public == PublicEndpoint(9005, ("localhost",), None)


def test_the_protocols_of_listeners_are_kept_unless_they_are_plain() -> None:
    status = {
        "resolution": "Online",
        "listeners": [
            {"name": "PUBLIC", "host": "h", "port": 1, "protocol": "SASL_SSL"},
            {"name": "PUBLIC_1", "host": "h", "port": 2, "onAllAddresses": True},
        ],
        "private": {"host": "h", "port": 3, "protocol": "SSL"},
    }
    spu = parse_object("spu", {"spec": {"spuId": 1}, "status": status})
    assert isinstance(spu, Spu)
    assert [str(each.protocol) for each in spu.status.listeners] == ["SASL_SSL", "PLAINTEXT"]
    assert document_of(spu)["status"] == status


def test_an_endpoint_may_tell_no_host() -> None:
    spu = parse_object("spu", {"spuId": 0, "publicEndpoint": {"ingress": []}})
    assert isinstance(spu, Spu)
    assert spu.spec.public.ingress == ()


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({}, "spuId: it is missing"),
        ({"spuId": -1}, "spuId: -1 is not an id from 0 to 2147483647"),
        ({"spuId": 2**31}, "spuId: 2147483648 is not an id from 0 to 2147483647"),
        ({"spuId": "1"}, "spuId: '1' is not an id from 0 to 2147483647"),
        ({"spuId": 1, "name": "2"}, "name: '2' is not the SPU's id, 1"),
        ({"spuId": 1, "spuType": "Borrowed"}, "spuType: 'Borrowed' is not one of Managed, Custom"),
        ({"spuId": 1, "rack": ""}, "rack: it is empty; leave it out for an SPU in no rack"),
        (
            {"spuId": 1, "rack": "é" * 20_000},
            "rack: it has 40000 bytes; clients can be told at most 32767",
        ),
        ({"spuId": 1, "publicEndpoint": {"port": 70000}}, "publicEndpoint.port: 70000 is not a port from 0 to 65535"),
        ({"spuId": 1, "publicEndpoint": {"ingress": [{}]}}, "publicEndpoint.ingress[0].hostname: it is missing"),
        (
            {"spuId": 1, "publicEndpoint": {"ingress": [{"hostname": "a", "ip": "b"}]}},
            "publicEndpoint.ingress[0]: unknown field 'ip'; there are hostname",
        ),
        (
            {"spec": {"spuId": 1, "privateEndpoint": {"host": "a b"}}},
            "spec.privateEndpoint.host: 'a b' is not the name or the address of a host",
        ),
        (
            {"spuId": 1, "privateEndpoint": {"encryption": "SSL"}},
            "privateEndpoint.encryption: 'SSL' is not one of PLAINTEXT, TLS",
        ),
        ({"spuId": 1, "size": 1, "storage": {"size": 1}}, "size: it is also given as storage.size"),
        ({"spuId": 1, "storage": {"sizes": 1}}, "storage: unknown field 'sizes'; did you mean 'size'?"),
        ({"spuId": 1, "storage": "2Gi"}, "storage: '2Gi' is not a mapping of fields"),
        ({"spuId": 1, "group": "a/b"}, "group: 'a/b' cannot name an SPU group: 1 to 249 ASCII letters, digits, "),
        (
            {"spec": {"spuId": 1}, "status": {"listeners": [{"name": "PUBLIC", "host": "h"}]}},
            "status.listeners[0].port: it is missing",
        ),
    ],
)
def test_faults_of_spus(document: object, fault: str) -> None:
    assert _fault("spu", document).startswith(fault)


@pytest.mark.parametrize(
    ("document", "name", "fault"),
    [
        ({}, None, "name: it is missing"),
        ({}, "a b", "name: 'a b' cannot name an SPU group"),
        ({"replica": 2}, "main", "unknown field 'replica'; did you mean 'replicas'?"),
        ({"replicas": -1}, "main", "replicas: -1 is not a whole number from 1 to 1000"),
        ({"replicas": 1001}, "main", "replicas: 1001 is not a whole number from 1 to 1000"),
        ({"replicas": 3, "minId": 2**31 - 2}, "main", "minId: 3 ids from 2147483646 on would exceed 2147483647"),
        ({"template": {"spuId": 5}}, "main", "template: unknown field 'spuId'; "),
        ({"spuId": 5}, "main", "unknown field 'spuId'"),
        ({"size": "1Gi", "template": {}}, "main", "unknown field 'size'"),
        ({"template": {"publicEndpoint": {"prot": 1}}}, "main", "template.publicEndpoint: unknown field 'prot'; did"),
    ],
)
def test_faults_of_spu_groups(document: object, name: str | None, fault: str) -> None:
    assert _fault("spu-group", document, name).startswith(fault)


@pytest.mark.parametrize(
    ("kind", "document", "fault"),
    [
        ("spu", SEED_STORAGES[0], "storage.logDir: '/var/lib/mylog' would have no effect"),
        ("spu", {"configs": {"num.partitions": 3}}, "configs: they would have no effect"),
        (
            "spu",
            {"publicEndpoint": {"ingress": [{"hostname": "a"}, {"hostname": "b"}]}},
            "publicEndpoint.ingress: clients are told one host, and 2 are given; keep one",
        ),
        (
            "spu-group",
            {"publicEndpoint": {"ingress": [{"hostname": "a"}, {"hostname": "b"}]}},
            "template.publicEndpoint.ingress: clients are told one host, and 2 are given; keep one",
        ),
    ],
)
def test_a_field_that_would_have_no_effect_is_refused_but_can_be_read_from_the_store(
    kind: str, document: dict[str, object], fault: str
) -> None:
    if kind == "spu":
        document = {"spuId": 1, **document}
    assert _fault(kind, document, "main" if kind == "spu-group" else None).startswith(fault)
    read_document(kind, document, "main" if kind == "spu-group" else None)


def test_a_managed_spu_may_have_a_log_directory_and_configs() -> None:
    spec = {"spuId": 1, "spuType": "Managed", "group": "main", "configs": {"num.partitions": 3}, **SEED_STORAGES[0]}
    assert isinstance(parse_object("spu", spec), Spu)
