"""``tailrace enable`` and ``tailrace grants``: the T-SQL that sets a source up."""
