"""What gathered in the progress topic is read in slices, some of which may go while it is read."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.errors import ProgressTruncated
from tailrace_sink.kafka import progress_topic
from tailrace_sink.kafka.progress_topic import ProgressTopic
from tailrace_sink.log import progress_feed as feed
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.log.progress_feed import LogSlices
from tailrace_sink.plan import slice_size
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake
from tests.sink.intake.test_late_beginning import fill, forget_progress, progress_end

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

KEY = column(1, "id", "int", key=1)


@pytest.mark.guarantee(13)
@pytest.mark.slow("a backlog is logged in many commits")
def test_a_backlog_is_logged_slice_by_slice(
    source: Source, lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
):
    """However many offsets the next slice may have: the lengths of the records end it."""
    monkeypatch.setattr(slice_size, "_FIRST", 3)
    for module in (progress_topic, feed):
        monkeypatch.setattr(module, "SLICE_BYTES", 600)
    table = source.table("t", KEY)
    fill(source, table, *range(8))
    sink = lake.sink()
    try:
        sink.open()
        registry = source.registry.schema_by_id
        stream = ProgressStream(spark, sink.config, registry, sink)
        assert stream.catch_up(threading.Event()) > 2
        assert stream.catch_up(threading.Event()) == 0
        topic = ProgressTopic(spark, sink.config, registry)
        taken = [len(records) for records in topic.after(None)]
        assert (sum(taken), len(taken) > 2) == (8, True)
        log = LogTable(lake.spark, sink.config.log_path, sink.config.prefix)
        slices, batch, read = LogSlices(log, topic.name, registry), 0, []
        while (found := slices.after(batch)) is not None:
            batch = found.state.batch
            read.append(len(found.records))
        assert (sum(read), len(read) > 2) == (8, True)
        assert sink.fold_tables(threading.Event()) > 0
        assert lake.cut() == source.cut()

        # Retention takes what is next while a backlog is read: the log is opened again, after it.
        fill(source, table, *range(8, 12))
        slices_of_topic = topic.after(sink.next_offset)
        assert sink.process(next(slices_of_topic), threading.Event()) > 0
        forget_progress(source, before=progress_end(source))
        with pytest.raises(ProgressTruncated):
            next(slices_of_topic)
        fill(source, table, 12)
        sink.open()
        stream.catch_up(threading.Event())
        assert sink.log.state.closed_lsn == source.through
        with pytest.raises(ProgressTruncated, match="deleted and created again"):
            topic.after(progress_end(source) + 1)
    finally:
        sink.close()
