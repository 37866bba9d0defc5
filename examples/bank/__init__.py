"""A bank over several groups of accounts. See README.md."""
