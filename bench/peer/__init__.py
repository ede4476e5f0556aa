"""Rota as one of the systems of a peer benchmark: the verbs that its harness asks for. See README.md of bench/."""
