"""``tailrace audit``: compare the topics with the ledger in the progress records."""
