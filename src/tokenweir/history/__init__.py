"""What happened, in ClickHouse: its tables, the sink that fills them, and queries as values.

`tokenweir.history.client` is the one way in; everything else here is pure or takes its client.
"""
