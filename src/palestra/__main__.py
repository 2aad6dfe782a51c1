"""`python -m palestra` runs the console script, for callers that know only the path of the
interpreter.
"""

from palestra.cli.entry import main

if __name__ == "__main__":
    main()
