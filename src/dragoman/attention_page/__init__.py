"""Attention that one can see: arrays of it, a page, pictures, statistics."""
