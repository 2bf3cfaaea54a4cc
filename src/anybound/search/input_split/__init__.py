"""Branch and bound by splitting the input box, for networks with few inputs."""
