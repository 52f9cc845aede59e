import pytest

from tailrace.security.identity.distinguished_names import name_of_subject


def test_the_most_specific_part_comes_first() -> None:
    subject = ((("countryName", "DE"),), (("organizationName", "Example"),), (("commonName", "alice"),))
    assert name_of_subject(subject) == "CN=alice,O=Example,C=DE"


def test_parts_with_several_attributes_are_joined() -> None:
    assert name_of_subject(((("commonName", "alice"), ("userId", "7")),)) == "CN=alice+UID=7"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Example, Inc.", r"Example\, Inc."),
        ('a"b\\c;d<e>f+g', r"a\"b\\c\;d\<e\>f\+g"),
        ("#1", r"\#1"),
        (" a ", r"\ a\ "),
        ("  ", r"\ \ "),
        ("a=b", "a=b"),
        ("a\0b", r"a\00b"),
        ("Zoë", "Zoë"),
    ],
)
def test_special_characters_are_escaped(value: str, text: str) -> None:
    assert name_of_subject(((("commonName", value),),)) == f"CN={text}"


def test_other_attributes_are_written_by_their_ids() -> None:
    assert name_of_subject(((("emailAddress", "a@b"),),)) == "1.2.840.113549.1.9.1=#1603614062"
    assert name_of_subject(((("1.2.3", "ë"),),)) == "1.2.3=#0c02c3ab"
    assert name_of_subject(((("title", "x" * 200),),)).startswith("2.5.4.12=#1381c8")
