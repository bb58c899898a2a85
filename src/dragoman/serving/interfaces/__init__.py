"""The interfaces of the server: one module or package for each."""
