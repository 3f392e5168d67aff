"""`python -m overtrick`: the command line where no script of that name is installed."""

from overtrick.cli import main

if __name__ == "__main__":
    main()
