"""Transactional enqueue: an application creates jobs in a transaction of its own PostgreSQL database.

`rota_enqueue` (sql/) writes a row into a table of the application's, so the job exists exactly if its transaction
commits. A relay reads the rows and creates the jobs, each once. The database is not Rota's: what is said of it in SQL
stands here and not in the store.
"""
