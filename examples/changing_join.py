"""Join each change with the row of another table that was valid when it was committed.

The other table needs its history: sink.kinds with mirror and history. The file of the result has
each change once, whatever is killed: Delta skips a micro-batch that it has already.

pip install 'tailrace[sink,lake]'
python changing_join.py /srv/lake/shop dbo.flights origin dbo.airports code /srv/joined
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.streaming import DataStreamWriter

from tailrace.reading.lake_session import lake_session
from tailrace.spark import changes_stream
from tailrace_sink import read


def joined(
    spark: SparkSession, lake: str, facts: tuple[str, str], other: tuple[str, str], folder: str
) -> DataStreamWriter:
    """Return the query that appends to ``<folder>/joined``: columns ``fact`` and ``other``.

    Args:
        facts: table of the changes, and its column of the join.
        other: table of the rows that change slowly, and its key.
    """
    (table, column), (other_table, key) = facts, other

    def append(batch: DataFrame, number: int) -> None:
        rows = read(spark, lake).as_of("latest").read(other_table, is_history=True)
        change, valid = batch.where("_cdc_op <> 'd'").alias("change"), rows.alias("valid")
        is_valid = F.expr(
            f"change.after.`{column}` = valid.`{key}`"
            " AND change._cdc_lsn >= valid._cdc_valid_from_lsn"
            " AND (valid._cdc_valid_to_lsn IS NULL OR change._cdc_lsn < valid._cdc_valid_to_lsn)"
        )
        found = change.join(valid, is_valid, "left").selectExpr(
            "change.after AS fact", "struct(valid.*) AS other", "change._cdc_lsn AS lsn"
        )
        append = found.write.format("delta").mode("append")
        append.option("txnAppId", folder).option("txnVersion", number).save(f"{folder}/joined")

    stream = changes_stream(spark, lake, table)
    query = stream.writeStream.foreachBatch(append)
    return query.option("checkpointLocation", f"{folder}/checkpoint")


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    lake, table, column, other, key, folder = sys.argv[1:]
    joined(lake_session(), lake, (table, column), (other, key), folder).start().awaitTermination()
