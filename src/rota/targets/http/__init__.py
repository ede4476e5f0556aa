"""The HTTP target: jobs whose action is one HTTP call. `runner.py` is the worker, `request.py` what a job may say."""
