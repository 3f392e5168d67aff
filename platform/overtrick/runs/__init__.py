"""One run: its folder, its Tune trial, its page and videos, from the job to the record."""
