"""python -m dragoman: the command line."""

from dragoman.cli import main

main()
