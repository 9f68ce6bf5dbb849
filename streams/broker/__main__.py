from streams.broker.command import broker_command

broker_command(prog_name="python -m streams.broker")
