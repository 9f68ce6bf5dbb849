"""Records the metrics pages of a running vLLM server: a model to serve, a load, and the scrapes.

python record.py model FOLDER
python record.py pages http://127.0.0.1:PORT FOLDER
"""

import json
import random
import re
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.request import Request, urlopen

EVERY_S = 5.0
CLIENTS, REQUESTS = 100, 120
PROMPT, OUT = 200, 150  # tokens a request; every second one has the same prompt
KEPT = "vllm:time_to_first_token_seconds"  # the one histogram that stays, for the others

SPECIAL = ("<s>", "</s>", "<unk>")
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


def write_model(folder: Path) -> None:
    """A Llama of two layers without weights, and words w0 to w252, a token each."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [*SPECIAL, *(f"w{word}" for word in range(253))]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": place, "content": word, **flags, "special": True}
            for place, word in enumerate(SPECIAL)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: place for place, word in enumerate(words)},
            "unk_token": "<unk>",
        },
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "model_max_length": 512,
    }
    for name, value in (("config", MODEL), ("tokenizer", tokenizer), ("tokenizer_config", config)):
        (folder / f"{name}.json").write_text(json.dumps(value))


def record(url: str, folder: Path) -> None:
    """A page before, one every 5 s of the load, one after: `SECONDS.txt` since the first."""
    folder.mkdir(parents=True, exist_ok=True)
    begin_s = time.monotonic()
    scrape(url, folder, begin_s)
    with ThreadPoolExecutor(CLIENTS) as clients:
        load = [clients.submit(complete, url, prompt) for prompt in prompts()]
        while not all(map(Future.done, load)):
            time.sleep(EVERY_S)
            scrape(url, folder, begin_s)
    time.sleep(EVERY_S)
    scrape(url, folder, begin_s)
    print(f"{sum(one.result() for one in load)} tokens generated")


def prompts() -> list[str]:
    chance = random.Random(5)
    shared = [7 * place % 253 for place in range(PROMPT)]
    own = [[chance.randrange(253) for _ in range(PROMPT)] for _ in range(REQUESTS)]
    rows = [row if place % 2 else shared for place, row in enumerate(own)]
    return [" ".join(f"w{word}" for word in row) for row in rows]


def complete(url: str, prompt: str) -> int:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": OUT, "ignore_eos": True}
    request = Request(f"{url}/v1/completions", json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    with urlopen(request, timeout=600) as response:
        return int(json.load(response)["usage"]["completion_tokens"])


def scrape(url: str, folder: Path, begin_s: float) -> None:
    with urlopen(f"{url}/metrics", timeout=60) as response:
        page = response.read().decode()
    at_s = time.monotonic() - begin_s
    (folder / f"{at_s:07.3f}.txt").write_text(without_histograms(page))


def without_histograms(page: str) -> str:
    """The page less whole families, which the reader passes over and which are most of it."""
    families = re.split(r"(?m)^(?=# HELP )", page)
    types = re.findall(r"(?m)^# TYPE (\S+) (\S+)$", page)
    gone = {name for name, kind in types if kind in ("histogram", "summary") and name != KEPT}
    return "".join(family for family in families if _name(family) not in gone)


def _name(family: str) -> str:
    return family.split(maxsplit=3)[2].removesuffix("_created") if family.strip() else ""


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["model", folder]:
            write_model(Path(folder))
        case ["pages", url, folder]:
            record(url, Path(folder))
        case _:
            sys.exit(__doc__)
