"""Comparisons: train several methods, and evaluate each against each opponent in a table.

- `comparison_job.py`: the job file
- `schedule.py`: plan the trainings and evaluations
- `runner.py`: train and evaluate
- `board.py`: evaluate players that learn about an opponent during a match
- `statistics.py`: means over seeds, percentages of the best-response payoff, and t tests
"""
