"""``tailrace facts``: the read-only questions of docs/genuine/facts.sql, at a given source."""
