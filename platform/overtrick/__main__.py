"""Run the command line as `python -m overtrick`, for use if the script is not installed."""

from overtrick.cli import main

if __name__ == "__main__":
    main()
