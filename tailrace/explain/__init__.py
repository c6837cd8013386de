"""``tailrace explain``: follow one row or one commit from the source to the lake."""
