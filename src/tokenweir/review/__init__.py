"""Review: a pool's log folded again by the live code, beside what was recorded at the time.

Nothing here reads a clock, and nothing writes to a topic: a log comes in as a `PoolLog`, from Kafka
(`review.kafka`) or from an exported file (`review.container`).
"""
