"""`python -m torchnpn`."""

from torchnpn.cli import main

main()
