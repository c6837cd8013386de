"""Settings of a session from several sides, without Spark."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

from tailrace_sink.spark import session
from tailrace_sink.spark.session import all_jars, merged_settings, spark_settings


def test_jars_come_together_and_everything_else_is_overridden():
    merged = merged_settings(
        {"spark.jars": "/ours.jar", "a": "1", "b": "1"},
        {"spark.jars": "/submitted.jar,/ours.jar", "a": "2"},
        {"b": "3"},
    )
    assert merged == {"spark.jars": "/ours.jar,/submitted.jar", "a": "2", "b": "3"}
    assert all_jars(None, "", " /a.jar , /b.jar", "/a.jar") == "/a.jar,/b.jar"


def test_the_master_is_not_ours_to_say():
    assert "spark.master" not in spark_settings(2)


def test_every_session_of_the_sink_has_the_settings_of_its_values():
    """A program's own session, or the section ``spark``, may say otherwise."""
    folder = Path(session.__file__).parents[1]
    made = [file.name for file in folder.rglob("*.py") if ".newSession(" in file.read_text("utf-8")]
    assert made == ["session.py"]
    set_: dict[str, str] = {}
    new = SimpleNamespace(conf=SimpleNamespace(set=set_.__setitem__))
    session.own_session(cast(Any, SimpleNamespace(newSession=lambda: new)))
    assert set_["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"
    assert set_["spark.sql.variable.substitute"] == "false"
    assert set_.items() <= spark_settings(2).items(), "readers have them, too"


def test_spark_makes_no_folder_where_the_process_was_started():
    folder = urlsplit(spark_settings(2)["spark.sql.warehouse.dir"])
    assert folder.scheme == "file"
    assert Path(folder.path).is_dir()
