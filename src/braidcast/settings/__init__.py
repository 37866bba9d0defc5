"""Files that people write: TOML read against a schema, with the line of every problem."""

CLUSTER_FILE = "cluster.toml"
"""What the configuration is called in the directory of a local cluster."""
