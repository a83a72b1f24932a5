"""What the user works on and with: sessions and their actors, the broker of questions, documents, edits, the opener."""
