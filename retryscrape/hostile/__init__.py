"""The web that misbehaves: origins, proxies and scenarios on loopback, for the demo, tests, benchmarks and users who try their settings."""
