"""Other ways to say a program: the e-graph and the rules that grow it."""
