"""The command `braidcast`: arguments, progress and wiring, and the registry of protocols."""
