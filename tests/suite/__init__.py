"""How the tests are marked, shared out among workers and reported."""
