"""Framed Avro records to rows, and rows to the last change of each key."""
