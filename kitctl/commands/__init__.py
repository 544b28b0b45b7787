"""One verb a file: each calls stages and edge in turn and returns a Result."""
