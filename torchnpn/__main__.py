"""`python -m torchnpn.cli`."""

from torchnpn.cli.app import main

main()
