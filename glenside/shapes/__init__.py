"""Programs for named sizes: what is named, a program for each size, and which of them a call is."""
