"""A server for a table model: predictions over HTTP, and a page to play with.

Needs the extra `serve`: Starlette, uvicorn and prometheus_client.
"""

from torchnpn.serve.app import application
from torchnpn.serve.limits import Limits
from torchnpn.serve.server import listen, serve

__all__ = ["Limits", "application", "listen", "serve"]
