"""JSON-RPC 2.0 as pure shapes and rules: messages, framing of byte streams, and the table that correlates ids. No I/O."""
