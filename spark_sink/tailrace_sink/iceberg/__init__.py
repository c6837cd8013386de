"""Lake tables in Iceberg: staged on a branch, published together by one commit of the catalog."""
