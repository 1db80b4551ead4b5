"""What threads gain."""
