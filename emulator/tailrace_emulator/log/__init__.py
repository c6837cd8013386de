"""The transaction log: LSNs, records, commit order, truncation."""
