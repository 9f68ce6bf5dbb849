"""The Faust application and the parts that a machine without them needs: broker, ClickHouse."""
