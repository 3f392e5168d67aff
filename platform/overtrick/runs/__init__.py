"""Execution of one run: Tune trial, listeners, results, HTML report and videos."""
