"""Cycles of Gemmini: processor, loop unrollers, reservation station, controllers and DMA; and how far to trust them."""
