"""A Kafka cluster and a schema registry in memory, as far as a publisher can tell."""
