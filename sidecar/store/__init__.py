"""What outlives the process: SQLite in the state folder, and secrets."""
