"""Schedules as files: the YAML of `rota apply`, and crontabs and Kubernetes CronJobs turned into it.

Text in, values out: nothing here reads a file, a clock or the network.
"""
