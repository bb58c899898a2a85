"""HTTP servers for models."""
