"""The `npn` command: a thin layer that reads arguments, shows progress, writes files and turns errors into one line.

Modules here that describe a command import its work only when it runs: `npn --help` needs no torch.
"""
