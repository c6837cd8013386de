"""What a session does at the source next to reading it: rotation, cleanup, forecasts."""
