from streams.clickhouse.command import clickhouse_command

clickhouse_command()
