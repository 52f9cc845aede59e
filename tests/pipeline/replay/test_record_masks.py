import pickle

import pytest

from tailrace.pipeline.replay.record_masks import MaskError, RecordMasks, fingerprint, parse_mask
from tailrace.protocol.batches.records import Record

SECRET = b"a long secret"


def _masked(*masks: str, value: bytes | None = None, key: bytes | None = None, headers: tuple = ()) -> Record:  # type: ignore[type-arg]
    record = Record(0, 0, key, value, list(headers))
    RecordMasks(map(parse_mask, masks), SECRET).apply(record)
    return record


def test_fields_are_dropped_replaced_and_hashed_and_the_rest_keeps_its_bytes() -> None:
    value = b'{"id": 12345678901234567890, "amount": 1.10, "customer": {"email": "a@b.c", "name": "A"}, "card": 1e5}'
    found = _masked("value.customer.email=drop", "value.card=replace:****", value=value).value
    assert found == b'{"id":12345678901234567890,"amount":1.10,"customer":{"name":"A"},"card":"****"}'
    (email,) = (_masked("value.email=hash", value=b'{"email": "a@b.c"}').value,)
    assert email == b'{"email":"%s"}' % (_masked("key=hash", key=b"a@b.c").key or b"")
    assert _masked("value.missing.field=drop", value=b'{"a": 1}').value == b'{"a":1}'
    assert _masked("value.a.b=drop", value=b" 3").value == b"3"


def test_a_star_means_every_element() -> None:
    value = b'{"items": [{"price": 1, "n": 2}, {"price": 3}], "b": {"x": 1, "y": 2}}'
    found = _masked("value.items.*.price=drop", "value.b.*=replace:0", value=value).value
    assert found == b'{"items":[{"n":2},{}],"b":{"x":"0","y":"0"}}'


def test_keys_values_and_headers_are_masked() -> None:
    record = _masked(
        "key=hash", "value=replace:gone", "header.user.id=hash", "header.session=drop", value=b"v", key=b"k",
        headers=(("user.id", b"7"), ("session", b"s"), ("other", None)),
    )  # fmt: skip
    assert record.key is not None and len(record.key) == 32
    assert record.value == b"gone"
    assert [name for name, _ in record.headers] == ["user.id", "other"]
    assert _masked("key=drop", key=b"k").key is None
    assert _masked("value.a=hash", "value=hash").value is None


def test_equal_contents_have_equal_hashes_only_with_the_same_secret() -> None:
    assert _masked("key=hash", key=b"k") == _masked("key=hash", key=b"k")
    other = Record(0, 0, b"k", None)
    RecordMasks([parse_mask("key=hash")], b"another").apply(other)
    assert other.key != _masked("key=hash", key=b"k").key
    assert fingerprint(b"another") != fingerprint(SECRET)


@pytest.mark.parametrize("value", [b"no json", b"{", b'{"a": \xff}', b'{"a": 1} x'])
def test_a_mask_that_cannot_be_applied_is_an_error(value: bytes) -> None:
    with pytest.raises(MaskError, match=r"the value is no JSON, so the mask of value.a cannot be applied"):
        _masked("value.a=drop", value=value)


@pytest.mark.parametrize(
    "text", ["key", "key=gone", "key.x=drop", "header=drop", "value.=drop", "other=drop", "key=drop:x", "key=replace"]
)
def test_a_wrong_mask_is_refused(text: str) -> None:
    with pytest.raises(MaskError, match="is no mask: give PLACE=ACTION"):
        parse_mask(text)


def test_a_hash_needs_a_secret() -> None:
    with pytest.raises(MaskError, match="needs a secret") as found:
        RecordMasks([parse_mask("key=hash")], None)
    assert str(pickle.loads(pickle.dumps(found.value))) == str(found.value)
    assert not RecordMasks([parse_mask("key=drop")], None).uses_secret
