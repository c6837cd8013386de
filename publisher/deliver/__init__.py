"""Transactions into Kafka; the only room that knows confluent_kafka."""
