"""Measures Rota: each workload on a fresh PostgreSQL, beside the SQL floor of the same run. See README.md."""
