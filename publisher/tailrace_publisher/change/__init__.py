"""What a change is inside the publisher: capture instances, versions, ranges, rows."""
