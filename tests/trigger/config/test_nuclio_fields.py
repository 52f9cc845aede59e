from tailrace.trigger.config import nuclio_fields as fields
from tailrace.trigger.config.trigger_settings import RETRY_FIELDS, SETTINGS


def test_every_setting_can_be_written_in_the_shape_of_nuclio() -> None:
    elsewhere = {"name", "replicas", "min_replicas", "environment", "access_key", "access_user"}
    assert {*fields.ATTRIBUTE_SETTINGS.values(), *RETRY_FIELDS, *elsewhere} == set(SETTINGS)


def test_a_field_has_one_meaning() -> None:
    trigger = [
        fields.TRIGGER_SPECIAL,
        fields.TRIGGER_SILENT,
        fields.TRIGGER_SETTINGS.keys(),
        fields.DEPRECATED.keys(),
        fields.TRIGGER_WITHOUT_EFFECT,
    ]
    attributes = [fields.ATTRIBUTE_SETTINGS.keys(), fields.ATTRIBUTE_SPECIAL, fields.ATTRIBUTE_WITHOUT_EFFECT]
    spec = [fields.SPEC_SPECIAL, fields.SPEC_SILENT, fields.SPEC_WITHOUT_EFFECT]
    for groups in (trigger, attributes, spec):
        assert sum(map(len, groups)) == len({name for names in groups for name in names})
        assert all(name == name.lower() for names in groups for name in names)


def test_suggestions_are_spelled_as_people_write_them() -> None:
    assert fields.SPELLINGS["sessiontimeout"] == "sessionTimeout"
    assert fields.SPELLINGS["maxworkers"] == "maxWorkers"
