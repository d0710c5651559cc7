"""Configuration: the settings of the service and the workers, from ``CYCLOPS_*`` environment variables."""
