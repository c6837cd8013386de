"""``tailrace plan``: what a first start would publish."""
