"""The real thing: nodes that run any protocol on real sockets and a real disk, and their configuration."""
