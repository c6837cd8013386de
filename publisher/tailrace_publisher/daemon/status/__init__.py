"""What the publisher reports of itself: status boards, commit traces, table sizes."""
