"""Run a job: train it as a Tune trial, store the results, write the HTML report and videos."""
