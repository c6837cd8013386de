"""Run the sink: session, log, fold in its own thread, endpoint, and the loop that retries."""
