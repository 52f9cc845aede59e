import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.cli.options.document_files import DocumentError, read_document, read_documents
from tailrace.controller.objects.object_documents import parse_object
from tailrace.controller.objects.objects import Encryption, Spu, SpuGroup, SpuGroupSpec, Topic

SPU = """
kind: spu
spec:
  spuId: 100
  spuType: "Custom"
  rack: "Zone1"
  storage:
    size: 2Gi
  publicEndpoint:
    port: 9005
    ingress:
      - hostname: localhost
    encryption: PLAINTEXT
  privateEndpoint:
    port: 9006
    host: localhost
    encryption: PLAINTEXT
"""
GROUP = """
name: main
replicas: 2
minId: 11
"""
MAP = """
- 0: [0, 1, 2]
- 1: [1, 2, 0]
- 2: [2, 1, 0]
"""


def test_documents_follow_one_another() -> None:
    documents = read_documents(f"{SPU}---\n# a group\n{GROUP}---\n---\n", "file")
    assert len(documents) == 2
    spu = parse_object("spu", documents[0])
    assert isinstance(spu, Spu)
    assert spu.spec.public.encryption is Encryption.PLAINTEXT
    assert parse_object("spu-group", documents[1]) == SpuGroup("main", SpuGroupSpec(2, 11))  # type: ignore[arg-type]


def test_the_seeds_map_as_a_file() -> None:
    topic = parse_object("topic", {"replicaMap": read_document(MAP, "file")}, "orders")
    assert isinstance(topic, Topic)
    assert topic.spec.replica_map == {0: (0, 1, 2), 1: (1, 2, 0), 2: (2, 1, 0)}
    assert read_document('{"0": [0, 1]}', "file") == {"0": [0, 1]}
    assert read_document("{0: [0, 1],\n 1: [1, 0]}", "file") == {0: [0, 1], 1: [1, 0]}


def test_json_is_read_as_json() -> None:
    assert read_documents('{\t"a": 1e3}', "file") == [{"a": 1000.0}]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: 2\na: 3\n", "file: line 3, column 1: the field 'a' occurs twice"),
        ('{"a": 1, "a": 2}', "file: the field 'a' occurs twice"),
        ("a: &x [1]\nb: *x\n", "file: line 1, column 4: an alias refers to this value"),
        ("a: [1\n", "file: line 2, column 1: expected ',' or ']', but got '<stream end>'"),
        ("port: 9005\n- hostname: localhost\n", "file: line 2, column 1: expected <block end>, but found"),
        ("a: !!python/object:os.system x", "file: line 1, column 4: could not determine a constructor"),
        ("\x00", "file: unacceptable character"),
        ("a: 2026-13-45", "file: month must be in 1..12"),
        ('{"a": %s}' % ("9" * 5000), "file: a number has too many digits"),
        ("{" * 2_000, "file: the document is nested too deeply"),
        ("[" * 100_000, "file: the document is nested too deeply"),
        (" " * (16 * 1024 * 1024 + 1), "file: the file has more than 16777216 characters"),
    ],
)
def test_what_cannot_be_read(text: str, fault: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_documents(text, "file")
    assert str(caught.value).startswith(fault)


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a: 1\n---\nb: 2", 2)])
def test_one_document_is_one(text: str, count: int) -> None:
    with pytest.raises(DocumentError, match=f"^file: the file must have one document, not {count}$"):
        read_document(text, "file")


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#\n 01,\t\x00?", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read_documents(text, "file")
    except DocumentError as error:
        assert str(error).startswith("file")
        assert "\n" not in str(error)
