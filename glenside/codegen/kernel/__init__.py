"""What a kernel reads, guards, computes and stores, whatever loops or threads it is made of."""
