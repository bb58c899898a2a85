"""Documents that are uploaded, translated, and fetched."""
