"""Kafka through Spark: existing offsets, exact offset ranges, slices of the progress topic."""
