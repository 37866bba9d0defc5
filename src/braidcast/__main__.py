"""`python -m braidcast` is the command `braidcast`."""

from braidcast.cli.main import main

main()
