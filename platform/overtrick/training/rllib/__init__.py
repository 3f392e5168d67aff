"""The trainer that runs an RLlib algorithm on our games."""
