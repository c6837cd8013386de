from io import StringIO

from rich.console import Console

from tailrace.cli.progress_bar import progress_bar
from tailrace_sink.watch.metrics import SinkMetrics


def test_the_bar_ends_with_what_was_carried():
    metrics, out = SinkMetrics(), StringIO()
    with progress_bar(metrics, Console(file=out, force_terminal=True, width=100)):
        metrics.logged(12, 0.1, 0)
        metrics.waiting.labels(stage="tables").set(5)
        metrics.changes.inc(7)
    last = out.getvalue()
    assert "into the log" in last
    assert "12/12" in last
    assert "7/12" in last
