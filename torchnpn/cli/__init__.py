"""The `npn` command: a thin layer that reads arguments, shows progress, writes files and turns errors into one line.

Modules here that describe a command import its work only when it runs: `npn --help` needs no torch. The names below are
for the commands of other packages. They are imported when first used, so that `app` can say what to install.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchnpn.cli.app import main
    from torchnpn.cli.arguments import Device, check_device_name
    from torchnpn.cli.console import bars, say, show
    from torchnpn.cli.errors import OTHER, check_writable, fail, in_one_line, writing

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
_HOMES = {
    "app": ("main",),
    "arguments": ("Device", "check_device_name"),
    "console": ("bars", "say", "show"),
    "errors": ("OTHER", "check_writable", "fail", "in_one_line", "writing"),
}


def __getattr__(name: str) -> Any:
    """A name above, from the module that has it."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
