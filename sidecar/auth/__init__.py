"""Where credentials come from: references to secrets, token commands, sign-in flows."""
