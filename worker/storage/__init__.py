"""Storage: the object store in a folder or a bucket, and connections to the store and to Redis."""
