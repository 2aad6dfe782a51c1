"""`python -m palestra`: the console script, where only an interpreter is known."""

from palestra.cli.main import main

if __name__ == "__main__":
    main()
