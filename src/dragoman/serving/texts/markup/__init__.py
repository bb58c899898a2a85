"""Texts with tags: HTML and XML."""
