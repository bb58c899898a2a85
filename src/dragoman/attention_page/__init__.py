"""Visualisation of attention: arrays of weights, an HTML page, pictures and statistics."""
