"""Which source word each target word comes from: by attention, and by lexicons."""
