"""Job files: their schema, command-line overrides and search spaces."""
