"""The domain: what a session is, what happens in it, what is asked of the user, and the ports agents and fronts meet at. Pure."""
