"""The Program, the one thing that compile and simulate share: its model, its document, its words."""
