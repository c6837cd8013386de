"""Settings of a session from several sides, without Spark."""

from pathlib import Path
from urllib.parse import urlsplit

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


def test_spark_makes_no_folder_where_the_process_was_started():
    folder = urlsplit(spark_settings(2)["spark.sql.warehouse.dir"])
    assert folder.scheme == "file"
    assert Path(folder.path).is_dir()
