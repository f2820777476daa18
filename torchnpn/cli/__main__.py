"""`python -m torchnpn.cli`."""

from torchnpn.cli import main

main()
