"""What every protocol and every driver shares: ids, timestamps, ballots, topology, and the contract between them.

Standard library only (`message.py` uses msgspec when it is installed). Nothing here does I/O.
"""
