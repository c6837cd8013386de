"""From framed Avro records to rows, and from rows to the last change of each key."""
