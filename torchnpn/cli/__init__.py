"""The `npn` command: a thin layer that reads arguments, shows progress, writes files and turns errors into one line.

Modules here that describe a command import its work only when it runs: `npn --help` needs no torch. The names below are
also for the commands of other packages, which `app` loads: it comes last.
"""

import sys
from importlib.util import find_spec

try:
    for needed in ("typer", "rich", "matplotlib", "pyarrow"):  # said now, before any work is done
        if find_spec(needed) is None:
            raise SystemExit(f"npn: {needed} is not installed. The command needs: pip install 'torchnpn[cli]'")
    from torchnpn.cli.arguments import Device, check_device_name
    from torchnpn.cli.console import bars, say, show
    from torchnpn.cli.errors import OTHER, check_writable, fail, in_one_line, writing
    from torchnpn.cli.app import main  # isort: skip
except KeyboardInterrupt:
    sys.stderr.write("npn: stopped.\n")
    raise SystemExit(130) from None

__all__ = [
    "OTHER",
    "Device",
    "bars",
    "check_device_name",
    "check_writable",
    "fail",
    "in_one_line",
    "main",
    "say",
    "show",
    "writing",
]
