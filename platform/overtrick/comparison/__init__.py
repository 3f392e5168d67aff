"""Every method against every stranger, with the same budget: one table, worked on side by side.

`plan.py` says what a table's job file holds and who plays whom, `work.py` trains and judges,
`outcome.py` makes figures of it: means over seeds, shares, significance, Markdown and CSV.
"""
