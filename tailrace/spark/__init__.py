"""Changes of a lake in people's own Spark jobs, as a stream or as a table.

:func:`changes_stream` returns a streaming DataFrame. :func:`register` makes the source ``tailrace``
known to a session, for ``spark.readStream.format("tailrace")`` and ``spark.read``. Needs the extras
``tailrace[sink,lake]`` on the driver and the executors.
"""

from typing import TYPE_CHECKING, Any, Final

from tailrace.lake.errors import from_extra
from tailrace.spark.errors import SparkUnsupported

if TYPE_CHECKING:
    from tailrace.spark.stream import changes_stream, of_table, register

__all__ = ["changes_stream", "of_table", "register"]
_SPARK_MIN: Final = 4


def __getattr__(name: str) -> Any:
    if name in __all__:
        with from_extra("sink,lake"):
            import pyspark

            if int(pyspark.__version__.partition(".")[0]) < _SPARK_MIN:
                raise SparkUnsupported(pyspark.__version__)
            from tailrace.spark import stream

        return getattr(stream, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
