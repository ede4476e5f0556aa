"""The outbox: what is promised of transactional enqueue, on a real PostgreSQL."""
