"""The one part of kitctl that touches the world: processes, network, files, environment, clock."""
