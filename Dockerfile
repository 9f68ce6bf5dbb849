# syntax=docker/dockerfile:1
# The control plane, the history and the demo in one image. A gateway needs only the wheel.
FROM python:3.13-slim AS build
WORKDIR /app
COPY requirements.lock pyproject.toml ./
RUN awk '/^[a-z]/ {ours = /^uv==/} ours' requirements.lock > uv.txt \
 && pip install --no-cache-dir --require-hashes --no-deps -r uv.txt \
 && python -m venv /venv \
 && uv pip install --no-cache --python /venv/bin/python --require-hashes -c requirements.lock \
      -r pyproject.toml --extra control --extra demo
COPY README.md LICENSE ./
COPY schemas schemas
COPY presets presets
COPY src src
RUN uv pip install --no-cache --python /venv/bin/python --no-deps .

FROM python:3.13-slim
RUN useradd --uid 10001 --create-home tokenweir && install -d -o tokenweir -g tokenweir /data
WORKDIR /app
COPY --from=build /venv /venv
COPY streams streams
COPY agents agents
COPY examples examples
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 TOKENWEIR_DATA=/data
USER tokenweir
VOLUME /data
ENTRYPOINT ["python", "-m", "streams"]
CMD ["--help"]
