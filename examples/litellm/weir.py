"""The callback that config.yaml names: where Kafka is, and which pool serves which model."""

import os

from tokenweir.adapters.litellm_proxy.callback import Callback, Settings, Who

weir = Callback(
    Settings(
        brokers=os.environ.get("TOKENWEIR_BROKERS", "localhost:9092"),
        prefix=os.environ.get("TOKENWEIR_TOPIC_PREFIX", ""),
        pools={"*": "chat"},
        # A key's team is the tenant; a key without one stands for itself.
        who=Who(tenant=("team_id", "key_alias"), user=("end_user_id", "user_id")),
    )
)
