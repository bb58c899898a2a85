"""Glossaries: their entries, and where they are stored."""
