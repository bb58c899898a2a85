"""What a model computes, seen from outside: its attention, and what it loses without a head."""
