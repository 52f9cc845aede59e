from tailrace.cli.serving.setting_lines import TOP, setting_lines


def test_each_setting_has_its_line_and_table() -> None:
    text = """# a comment with a = 1
public = "h:1"
 log-level='info'

[broker]
"num.partitions" = 3
'log.retention.ms'=1
public = "in the table"
public = "again"
"""
    assert setting_lines(text) == {
        (TOP, "public"): 2,
        (TOP, "log-level"): 3,
        (TOP, "broker"): 5,
        ("broker", "num.partitions"): 6,
        ("broker", "log.retention.ms"): 7,
        ("broker", "public"): 8,
    }
