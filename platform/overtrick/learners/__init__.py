"""Learning algorithms: from trajectories or labelled examples to network weights or tables."""
