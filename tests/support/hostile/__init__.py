"""Damaged and hostile model directories, lines and search settings, made by number; and what each of them does.

`cases` makes a case of a number and a seed; `trial` runs a case in a process of its own and says what became of it.
`benchmarks/hostile_models.py` runs thousands.
"""
