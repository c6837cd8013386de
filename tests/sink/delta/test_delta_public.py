"""What readers ask of Delta by public statements alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.delta.public_reads import PropertiesUnknown, properties_of, text_of, version_of
from tests.sink.fold.test_upsert import VECTORS, create

pytestmark = pytest.mark.spark


def test_public_statements_tell_what_is_there_and_refuse_what_they_cannot(
    spark: SparkSession, tmp_path: Path
):
    for missing in (tmp_path / "none", tmp_path):
        assert version_of(spark, str(missing)) == -1
    text = tmp_path / "text.json"
    assert text_of(spark, str(text)) is None
    text.write_text("two\nlines")
    assert text_of(spark, str(text)) == "two\nlines"

    location = create(spark, tmp_path / "t", VECTORS)
    assert version_of(spark, location) == 0
    spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('tailrace.other' = 'x')")
    assert properties_of(spark, location, 0)["tailrace.columns"]
    spark.sql(f"ALTER TABLE delta.`{location}` ADD COLUMNS (segment STRING)")
    with pytest.raises(PropertiesUnknown, match="ADD COLUMNS"):
        properties_of(spark, location, 0)
