import pytest

from tailrace.trigger.config.function_yaml import read_inline_yaml
from tailrace.trigger.config.inline_config import inline_document
from tailrace.trigger.config.trigger_settings import TriggerConfigError, merge_layers

FILE = """\
# Licence

import json

# @nuclio.configure
#
# function.yaml:
#   metadata:
#     name: billing
#   spec:
#     runtime: python
#     triggers:
#       stream:
#         kind: kafka-cluster
#         url: kafka://host:9092/orders@billing
#         maxWorkers: 2

# other: comment
def handler(context, event): ...
"""


def test_comments_of_nuclio_configure_the_function() -> None:
    file = read_inline_yaml(FILE, "billing.py")
    assert file is not None
    config = merge_layers([file.layer], origin="billing.py")
    assert (config.name, config.topic, config.max_workers) == ("billing", "orders", 2)


def test_lines_keep_their_numbers() -> None:
    text = inline_document(FILE)
    assert text is not None
    assert text.splitlines()[8] == "    name: billing"
    file = read_inline_yaml(FILE.replace("maxWorkers: 2", "maxWorkers: 0"), "billing.py")
    assert file is not None
    with pytest.raises(TriggerConfigError, match=r"^billing.py: line 16: maxWorkers: 0 is not"):
        merge_layers([file.layer], origin="billing.py")


def test_a_file_without_the_mark_has_no_configuration() -> None:
    assert inline_document("def handler(context, event): ...") is None
    assert inline_document('text = "@nuclio.configure"') is None
    assert read_inline_yaml("x = 1", "billing.py") is None


def test_other_files_in_the_comments_are_ignored() -> None:
    assert read_inline_yaml("# @nuclio.configure\n#\n# other.txt: x\n", "billing.py") is None


def test_comments_that_are_no_yaml_are_one_sentence() -> None:
    with pytest.raises(TriggerConfigError, match=r"^billing.py: line 2: "):
        read_inline_yaml("# @nuclio.configure\n# a: [\n", "billing.py")
    with pytest.raises(TriggerConfigError, match=r"^billing.py: the comments after @nuclio.configure have no fields$"):
        read_inline_yaml("# @nuclio.configure\n# just text\n", "billing.py")
