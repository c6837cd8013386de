#!/bin/sh
# What compose.yaml's health check calls in Kafka's own image.
exec python3 -I /opt/kafka/bin/health.py kafka
