"""Event records and their schema: the one contract between whoever runs and whoever judges.

`event` and `manifest` need only the standard library; `schema`, `envelope` and `store` need pyarrow.
"""
