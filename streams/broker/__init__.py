"""A broker of our own: one real Apache Kafka on loopback, without Docker or installed Java."""
