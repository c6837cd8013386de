"""Change rows to Avro bytes, by column; fastavro is its judge."""
