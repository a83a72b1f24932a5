"""ACP protocol 1 as it stands on the wire, and the dialects of Kiro. Pure."""
