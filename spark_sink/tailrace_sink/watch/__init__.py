"""What observes the sink: metrics, traces, retries, hang detection, test hooks."""
