"""The studies behind `npn demo`: small, on made or bundled data, seconds each on one core."""
