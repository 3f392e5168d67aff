"""Names of the files and folders of a run, on disk and in a bucket."""

JOB = "job.json"
TABLE = "table.json"  # a run that has it is finished
CARD = "model.json"  # a model that has it is complete
LOCK = "lock"
CHILDREN = "trials"
BEST = "best"  # the folder of the model with the best score in training
TUNE = "tune-"  # the beginning of the names of the folders that Ray Tune writes
