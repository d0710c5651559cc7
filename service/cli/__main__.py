"""``python -m service.cli``, which is ``cyclops``."""

from service.cli.commands import main

main()
