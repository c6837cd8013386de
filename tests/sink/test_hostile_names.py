"""Names of the source that mean something to Spark, SQL, URIs and file systems."""

from __future__ import annotations

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.reading.reader import read
from tailrace_sink.tables.lake_table import CDC_COLUMNS, quote
from tests.fix_envelopes import DATABASE, Source, column
from tests.sink.conftest import Lake

NAMES = ("a]b'c\"d`e/../../y %2F?#$HOME", "..", "SELECT", "Tâble 漢 😀\nend\x1b[2J")
COLUMNS = (
    "a]b'c\"d",
    "`tick``s`",
    "dot.ted",
    "SELECT",
    "*",
    "$x {y} \\",
    "<b>\n",
    "漢字 😀",
    "c" * 128,
)


def test_every_name_is_data_in_the_lake(source: Source, lake: Lake):
    odd = [column(number + 2, name, "int") for number, name in enumerate(COLUMNS)]
    tables = [source.table(name, column(1, "the key; `", "int", key=1), *odd) for name in NAMES]
    values = {name: number for number, name in enumerate(COLUMNS)}
    for key in (1, 2):
        for table in tables:
            source.commit(
                lambda t, table=table, key=key: t.insert(table, **{"the key; `": key}, **values)
            )
    source.publish()
    lake.catch_up()
    for table in tables:
        source.commit(lambda t, table=table: t.update(table, (1,), **{COLUMNS[0]: 77}))
        source.commit(lambda t, table=table: t.delete(table, (2,)))
    source.publish()
    lake.catch_up()

    cut = read(lake.spark, f"{lake.path}/lake").as_of("latest")
    views = cut.create_views("v_")
    assert set(cut.tables) == {TableName(DATABASE, "dbo", name) for name in NAMES}
    assert len(set(views.values())) == len(NAMES)
    wanted = {"the key; `": 1, **values, COLUMNS[0]: 77}
    for table, view in views.items():
        for frame in (cut.read(table), lake.spark.sql(f"SELECT * FROM {quote(view)}")):
            (row,) = frame.select(
                *(quote(name) for name in frame.columns if name not in CDC_COLUMNS)
            ).collect()
            assert row.asDict() == wanted
    inside = {path.name for path in lake.path.iterdir()}
    assert inside == {"lake"}, "no name leads out of the lake"
