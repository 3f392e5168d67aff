"""A seat for a person: who sits at the table, games that can be taken back, and the sheet."""
