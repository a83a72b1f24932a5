"""The commands for a terminal or a script. Each module is one command; ``main(options)`` returns its exit code."""
