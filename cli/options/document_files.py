"""Reads files of YAML or JSON documents into plain values, whatever kind of object they describe.

Two traps of YAML are closed. A field that occurs twice is refused, because the second one would silently win. An alias
is refused, because aliases can make a small file a huge document.
"""

import json
from typing import Any

DOCUMENT_CHARACTERS_MAX = 16 * 1024 * 1024


class DocumentError(Exception):
    """A file is wrong; the message is one sentence that says where, and what."""


def read_documents(text: str, origin: str) -> list[object]:
    """Reads the documents, which are divided by `---`, without empty ones. Errors call the file `origin`."""
    if len(text) > DOCUMENT_CHARACTERS_MAX:
        raise DocumentError(f"{origin}: the file has more than {DOCUMENT_CHARACTERS_MAX} characters")
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [json.loads(text, object_pairs_hook=_without_repetition)]
        except json.JSONDecodeError:
            pass  # a YAML document may begin in the same way
        except _RepetitionError as error:
            raise DocumentError(f"{origin}: {error}") from error
        except ValueError as error:
            raise DocumentError(f"{origin}: a number has too many digits") from error
        except RecursionError as error:
            raise DocumentError(f"{origin}: the document is nested too deeply") from error
    return _read_yaml(text, origin)


def read_document(text: str, origin: str) -> object:
    """Reads the only document of a file."""
    documents = read_documents(text, origin)
    if len(documents) != 1:
        raise DocumentError(f"{origin}: the file must have one document, not {len(documents)}")
    return documents[0]


class _RepetitionError(Exception):
    pass


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _RepetitionError(f"the field {repeated!r} occurs twice")
    return document


def _read_yaml(text: str, origin: str) -> list[object]:
    import yaml  # imported here because most commands read no file

    try:
        loader = yaml.SafeLoader(text)
        documents = []
        while loader.check_node():
            node = loader.get_node()
            _check(node, set(), origin)
            documents.append(loader.construct_document(node))
    except yaml.MarkedYAMLError as error:
        raise DocumentError(f"{origin}{_place(error.problem_mark)}: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentError(f"{origin}: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise DocumentError(f"{origin}: the document is nested too deeply") from error
    return [document for document in documents if document is not None]


def _check(node: Any, seen: set[int], origin: str) -> None:
    """Refuses aliases and repeated fields in `node`."""
    if id(node) in seen:
        raise DocumentError(f"{origin}{_place(node.start_mark)}: an alias refers to this value; write it out instead")
    seen.add(id(node))
    if isinstance(node.value, str):
        return
    if node.id == "sequence":
        for each in node.value:
            _check(each, seen, origin)
        return
    names = set()
    for key, value in node.value:
        name = (key.tag, key.value if isinstance(key.value, str) else None)
        if name in names:
            raise DocumentError(f"{origin}{_place(key.start_mark)}: the field {key.value!r} occurs twice")
        names.add(name)
        _check(key, seen, origin)
        _check(value, seen, origin)


def _place(mark: Any) -> str:
    return "" if mark is None else f": line {mark.line + 1}, column {mark.column + 1}"
