"""Which shard has which table, as all publishers of a database agree on it."""
