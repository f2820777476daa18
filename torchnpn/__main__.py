"""`python -m torchnpn`."""

from torchnpn.cli import main

if __name__ == "__main__":  # processes that a command starts import this, too
    main()
