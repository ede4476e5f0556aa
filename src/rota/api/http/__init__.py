"""The HTTP/JSON door: the same servicers by HTTP/1.1, one route for each google.api.http rule of the contract."""
