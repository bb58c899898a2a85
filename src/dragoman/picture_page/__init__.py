"""Presentation of pictures: grids, nearest neighbours, figures of attention, and a page. Takes arrays only."""
