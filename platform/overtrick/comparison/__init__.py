"""Comparison tables: methods trained and evaluated against opponents under one budget.

`comparison_job.py` is the job file, `schedule.py` plans the trainings and evaluations, `runner.py`
does them, and `statistics.py` computes means over seeds, shares and significance.
"""
