"""What a bundle holds: pure rules of its manifest, parts and images."""
