"""What a process can be kept from: one mechanism of the kernel a module, each tried and told of."""
