from tailrace.cli.output.tables import fields, table


def test_columns_are_aligned() -> None:
    assert table(("ID", "NAME"), [(5, "a"), (100, "long one"), (None, "")]) == (
        " ID  NAME\n  5  a\n100  long one\n  -  -"
    )


def test_a_table_without_rows_has_its_titles() -> None:
    assert table(("ID", "NAME"), []) == "ID  NAME"


def test_no_cell_moves_the_terminal() -> None:
    assert table(("NAME",), [("a\x1b[2Jb\nc",)]) == "NAME\na\\x1b[2Jb\\nc"
    assert fields([("Name", "a\nb")]) == "Name: a\\nb"


def test_fields_leave_out_what_is_nothing() -> None:
    assert fields([("Name", "a"), ("Rack", None), ("Reason", ""), ("Replicas", 0)]) == "Name:     a\nReplicas: 0"
    assert fields([]) == ""
