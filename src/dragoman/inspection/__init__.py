"""Inspection of models: capture of their attention, and ablation of heads."""
