"""Each wire turned into the session model: launch data, the ACP connection, translation, supervision."""
