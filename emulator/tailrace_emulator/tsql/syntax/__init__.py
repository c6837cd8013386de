"""T-SQL text to a syntax tree: tokens, nodes, the parser."""
