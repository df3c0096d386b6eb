"""One thin file per command: a Config dataclass and run(config)."""
