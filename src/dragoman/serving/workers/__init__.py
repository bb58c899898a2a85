"""The processes that run the models, and the server's side of them."""
