"""One process: a publisher of all tables, of a shard, of several databases; its HTTP endpoint."""
