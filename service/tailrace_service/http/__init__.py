"""A small HTTP server: who may call it, how many at once, over which certificate."""
