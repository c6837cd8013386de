"""The publisher's model of a change: capture instances, versions, ranges, rows."""
