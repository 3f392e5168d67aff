"""Trainers that approach a Nash equilibrium: CFR, NFSP and coevolution."""
