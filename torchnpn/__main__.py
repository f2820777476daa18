"""`python -m torchnpn`."""

from torchnpn.cli.app import main

main()
