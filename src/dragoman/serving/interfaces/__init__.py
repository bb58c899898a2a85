"""The interfaces of a server, one module each."""
