"""Who may use the server, and how much: keys, rates, bodies, places, and the security of browsers."""
