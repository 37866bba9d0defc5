"""What travels between nodes, and between nodes and clients: frames, the codec, the handshake, the connection.

Both sides of every connection are written with this package: `cluster` and `client` import it, and it imports `core`.
"""
