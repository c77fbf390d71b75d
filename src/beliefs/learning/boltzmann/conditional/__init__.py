"""Learning of conditional machines: visible bits given inputs."""
