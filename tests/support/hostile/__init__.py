"""Fuzzing with damaged and hostile model directories, lines of text and search settings.

`cases` generates a case from a number and a seed; `trial` runs a case in a separate process and reports the outcome.
`benchmarks/hostile_models.py` runs thousands of cases.
"""
