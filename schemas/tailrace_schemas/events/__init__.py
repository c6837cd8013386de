"""Events of data topics: column types, forms, serializations and their schemas."""
