"""The file with the oldest kept cut of a lake, from which all removal of old data follows.

It is stored in the lake before anything that only earlier cuts need is removed. So readers of an
earlier cut learn what was forgotten, and a sink that continues after a crash removes the same.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from tailrace_sink.delta.file_log import read_text, write_text
from tailrace_sink.plan.oldest_cut import OldestCut


class OldestCutFile:
    """The file with the oldest kept cut of one lake.

    Args:
        table: path of a Delta table on the same storage.
    """

    def __init__(self, spark: SparkSession, path: str, table: str) -> None:
        self._spark = spark
        self._path = path
        self._table = table

    def read(self) -> OldestCut:
        """Read the file; without one, nothing was forgotten."""
        text = read_text(self._spark, self._table, self._path)
        return OldestCut() if text is None else OldestCut.of_json(text)

    def write(self, oldest: OldestCut) -> None:
        """Replace the file."""
        write_text(self._spark, self._table, self._path, oldest.to_json())
