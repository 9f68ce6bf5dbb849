"""A callback for the LiteLLM proxy: it admits requests, and reports what their answers used.

from tokenweir.adapters.litellm_proxy.callback import Callback, Settings

weir = Callback(Settings(brokers="localhost:9092", pools={"*": "chat"}))

Only `callback`, `refusal` and `shutdown` import LiteLLM.
"""
