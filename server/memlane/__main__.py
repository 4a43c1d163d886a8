"""`python -m memlane` is `memlane`."""

from memlane.cli.main import main

main()
