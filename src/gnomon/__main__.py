"""`python -m gnomon`: the command line, where its script is not on the path."""

from gnomon.cli.main import main

if __name__ == "__main__":
    main()
