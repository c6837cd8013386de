"""Keep the number of rows for each value of a column: flights for each airport, at all times.

The totals start with a cut of the table, and follow every change after it.

pip install 'tailrace[sink,lake]'
python running_totals.py /srv/lake/shop dbo.flights origin /srv/totals
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.streaming import DataStreamWriter

from tailrace.reading.lake_session import lake_session
from tailrace.spark import changes_stream
from tailrace_sink import read


def first_totals(spark: SparkSession, lake: str, table: str, column: str, path: str) -> DataFrame:
    """Count the rows of the newest cut, once; later starts find these totals and their cut."""
    cut = read(spark, lake).as_of("latest")
    rows = cut.read(table).where("_cdc_op <> 'd'").groupBy(F.col(column).alias("value"))
    counts = rows.agg(F.count("*").alias("rows"))
    found = counts.agg(F.collect_list(F.struct("value", "rows")).alias("totals"))
    found = found.withColumn("cut", F.lit(cut.id))
    found.write.format("delta").mode("ignore").save(path)
    return spark.read.format("delta").load(path)


def totals(
    spark: SparkSession, lake: str, table: str, column: str, folder: str
) -> DataStreamWriter:
    """Return the query that keeps ``<folder>/totals``; it continues where it stopped."""
    first = first_totals(spark, lake, table, column, f"{folder}/first")
    after = first.head()["cut"]
    steps = F.expr(
        f"array(struct(before.`{column}` AS value, if(before IS NULL, 0, -1) AS rows),"
        f" struct(after.`{column}` AS value, if(after IS NULL, 0, 1) AS rows))"
    )
    changes = changes_stream(spark, lake, table, after=after).select(F.inline(steps))
    counts = changes.groupBy("value").agg(F.sum("rows").alias("rows"))

    def save(batch: DataFrame, _number: int) -> None:
        every = batch.unionByName(first.select(F.inline("totals")))
        found = every.groupBy("value").agg(F.sum("rows").alias("rows")).where("rows > 0")
        found.write.format("delta").mode("overwrite").save(f"{folder}/totals")

    query = counts.writeStream.outputMode("complete").foreachBatch(save)
    return query.option("checkpointLocation", f"{folder}/checkpoint")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    lake, table, column, folder = sys.argv[1:]
    totals(lake_session(), lake, table, column, folder).start().awaitTermination()
