"""Keep a table of your own with some columns of a source table: foreachBatch and MERGE.

pip install 'tailrace[sink,lake]'
python own_table.py /srv/lake/shop dbo.orders id note /srv/mine
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.streaming import DataStreamWriter

from tailrace.reading.lake_session import lake_session
from tailrace.spark import changes_stream
from tailrace_sink import read


def kept(
    spark: SparkSession, lake: str, table: str, key: str, columns: list[str], folder: str
) -> DataStreamWriter:
    """Return the query that keeps ``<folder>/rows``: a key and some columns of a table.

    The first start fills it from the newest cut. A large column (varchar(max) and others) is NULL
    in an update that does not change it: leave it out, or look at _cdc_changed.
    """
    mine = f"{folder}/rows"
    cut = read(spark, lake).as_of("latest")
    rows = cut.read(table).where("_cdc_op <> 'd'").select(key, *columns, "_cdc_lsn")
    rows.write.format("delta").mode("ignore").save(mine)
    # Its table has the first cut at this LSN; repeating what came later changes nothing.
    after = spark.read.format("delta").load(mine).agg(F.max("_cdc_lsn")).head()[0]

    def merge(batch: DataFrame, _number: int) -> None:
        row = [f"after.`{name}`" for name in columns]
        found = batch.selectExpr(
            f"coalesce(after.`{key}`, before.`{key}`) AS `{key}`", *row, "_cdc_lsn", "_cdc_op",
            "_cdc_position",
        )  # fmt: skip
        newest = F.max_by(F.struct("*"), "_cdc_position").alias("newest")
        changes = found.groupBy(key).agg(newest).select("newest.*").drop("_cdc_position")
        names = [f"`{name}`" for name in (key, *columns, "_cdc_lsn")]
        changes.createOrReplaceTempView("changes")
        changes.sparkSession.sql(
            f"MERGE INTO delta.`{mine}` AS mine USING changes ON mine.`{key}` <=> changes.`{key}`"
            " WHEN MATCHED AND changes._cdc_op = 'd' THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {', '.join(f'{n} = changes.{n}' for n in names)}"
            f" WHEN NOT MATCHED AND changes._cdc_op <> 'd' THEN INSERT ({', '.join(names)})"
            f" VALUES ({', '.join(f'changes.{n}' for n in names)})"
        )

    query = changes_stream(spark, lake, table, after=after).writeStream.foreachBatch(merge)
    return query.option("checkpointLocation", f"{folder}/checkpoint")


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    lake, table, key, *columns, folder = sys.argv[1:]
    kept(lake_session(), lake, table, key, columns, folder).start().awaitTermination()
