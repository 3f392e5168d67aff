"""Send a job to a Ray cluster and print its log: python submit.py http://HEAD:8265 /shared/runs"""

import sys

from overtrick.distributed.job_client import Cluster
from overtrick.distributed.job_package import ClusterTask

if __name__ == "__main__":
    address, runs = sys.argv[1:]
    job = {"trainer": "coevolve", "game": "kuhn", "stop": {"iterations": 20}}
    cluster = Cluster(address)
    submission = cluster.submit(ClusterTask("train", "kuhn", "kuhn-1", job, runs, {}))
    code = cluster.follow(submission, lambda text: print(text, end=""))
    print(f"{submission} ended with exit code {code}")
