"""Reads files of documents, in YAML or JSON, to what they say: the kinds of objects are the business of others.

YAML's traps are closed: of two fields of one name the last one would win in silence, and an alias can make a small file
a huge document; both are refused.
"""

import json
from typing import Any

DOCUMENT_CHARACTERS_MAX = 16 * 1024 * 1024


class DocumentError(Exception):
    """One sentence for the person who wrote the file: where, and what is wrong."""


def read_documents(text: str, origin: str) -> list[object]:
    """Each of the documents, which `---` divides; empty ones do not count. `origin` is what errors call the file."""
    if len(text) > DOCUMENT_CHARACTERS_MAX:
        raise DocumentError(f"{origin}: it is longer than {DOCUMENT_CHARACTERS_MAX} characters")
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [json.loads(text, object_pairs_hook=_without_repetition)]
        except json.JSONDecodeError:
            pass  # YAML may begin so too
        except _RepetitionError as error:
            raise DocumentError(f"{origin}: {error}") from error
        except ValueError as error:
            raise DocumentError(f"{origin}: a number in it has more digits than are read") from error
        except RecursionError as error:
            raise DocumentError(f"{origin}: it is nested too deeply") from error
    return _read_yaml(text, origin)


def read_document(text: str, origin: str) -> object:
    """The one document of the file."""
    documents = read_documents(text, origin)
    if len(documents) != 1:
        raise DocumentError(f"{origin}: there should be one document, not {len(documents)}")
    return documents[0]


class _RepetitionError(Exception):
    pass


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _RepetitionError(f"the field {repeated!r} stands there twice")
    return document


def _read_yaml(text: str, origin: str) -> list[object]:
    import yaml  # here, because most commands read no file

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
        raise DocumentError(f"{origin}: it is nested too deeply") from error
    return [document for document in documents if document is not None]


def _check(node: Any, seen: set[int], origin: str) -> None:
    if id(node) in seen:
        raise DocumentError(
            f"{origin}{_place(node.start_mark)}: what is here is used again by an alias, which is not read"
        )
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
            raise DocumentError(f"{origin}{_place(key.start_mark)}: the field {key.value!r} stands there twice")
        names.add(name)
        _check(key, seen, origin)
        _check(value, seen, origin)


def _place(mark: Any) -> str:
    return "" if mark is None else f": line {mark.line + 1}, column {mark.column + 1}"
