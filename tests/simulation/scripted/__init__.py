"""Histories that tests tell step by step: decisions of the publisher, exact and in milliseconds."""
