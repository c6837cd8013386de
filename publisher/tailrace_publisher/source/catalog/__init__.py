"""What the database's catalog says: capture instances, schema versions, DDL, partitions."""
