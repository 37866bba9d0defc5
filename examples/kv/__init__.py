"""A key-value store over several groups of keys. See README.md."""
