"""One suite of cases for the workers of every language: data, and a coordinator that follows it."""
