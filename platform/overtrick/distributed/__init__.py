"""Ray: worker pools, placement of processes, data-parallel learners, and jobs on a cluster."""
