"""Kafka through Spark: offsets that exist, exact offset ranges, slices of the progress topic."""
