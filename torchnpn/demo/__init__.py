"""The studies behind `npn demo`: small, on made or bundled data, seconds each on one core."""

# For other packages of torchnpn:
from torchnpn.demo import page as page
