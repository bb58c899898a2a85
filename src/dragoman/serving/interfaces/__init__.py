"""The interfaces of the server: one package for each."""
