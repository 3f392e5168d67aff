"""Comparison tables: methods trained and evaluated against opponents under one budget.

- `comparison_job.py`: the job file
- `schedule.py`: plan the trainings and evaluations
- `runner.py`: train and evaluate
- `statistics.py`: means over seeds, shares of the best response, and significance
"""
