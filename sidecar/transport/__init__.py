"""Bytes to and from peers: child processes with their whole tree, streams, and the peer that drives ``rpc`` over them."""
