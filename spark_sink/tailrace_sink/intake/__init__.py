"""Append events from Kafka to the log: one cut per append, counted and fenced."""
