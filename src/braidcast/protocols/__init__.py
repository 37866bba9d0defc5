"""The protocols, one package per paper. None of them does I/O, and none imports another; `parts` is what they share."""
