"""Option types that both daemons have."""
