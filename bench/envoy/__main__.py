"""`ShouldRateLimit` on loopback, from another process: ours, and a bare gRPC server's."""

import asyncio
import multiprocessing
import time
from multiprocessing.context import SpawnContext

import click
import grpc.aio

from bench.admission.leases import POOL
from bench.admission.orders import tenants
from bench.envoy.servers import Serve, bare, ours, run
from tokenweir.adapters.envoy.service import LIMITS
from tokenweir.adapters.envoy.wire_pb2 import Descriptor, RateLimitRequest, RateLimitResponse

AT_ONCE = 32
WARM = 200


@click.command()
@click.option("--requests", default=3_000, show_default=True, help="Requests a lane.")
def main(requests: int) -> None:
    """Measure both, one request at a time and 32 at once."""
    context = multiprocessing.get_context("spawn")
    for name, serve in (("bare gRPC", bare), ("Tokenweir", ours)):
        port, process = _started(context, serve)
        for at_once in (1, AT_ONCE):
            taken, lasted_s = asyncio.run(_ask(port, requests, at_once))
            median, p99 = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
            click.echo(
                f"{name}, {at_once} at once: median {median * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms, "
                f"{requests / lasted_s:,.0f}/s"
            )
        process.terminate()
        process.join()


def _started(
    context: SpawnContext, serve: Serve
) -> tuple[int, multiprocessing.process.BaseProcess]:
    here, there = context.Pipe()
    process = context.Process(target=run, args=(serve, there), daemon=True)
    process.start()
    there.close()  # so that its end here is seen
    return here.recv(), process


async def _ask(port: int, count: int, at_once: int) -> tuple[list[float], float]:
    """How long each took, sorted, and all of them; in seconds."""
    names, taken = tenants(), []
    places = asyncio.Semaphore(at_once)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        write, read = RateLimitRequest.SerializeToString, RateLimitResponse.FromString
        call = channel.unary_unary(f"/{LIMITS}/ShouldRateLimit", write, read)

        async def one(number: int) -> None:
            async with places:
                asked_s = time.perf_counter()
                response = await call(_request(names[number * 7 % len(names)]))
                taken.append(time.perf_counter() - asked_s)
                assert response.overall_code == RateLimitResponse.OK, response

        await asyncio.gather(*(one(number) for number in range(WARM)))
        taken.clear()
        started_s = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(count)))
        return sorted(taken), time.perf_counter() - started_s


def _request(tenant: str) -> RateLimitRequest:
    said = {"tenant": tenant, "user": "bo", "model": "m", "estimate": "10"}
    entries = [Descriptor.Entry(key=name, value=value) for name, value in said.items()]
    return RateLimitRequest(domain=POOL, descriptors=[Descriptor(entries=entries)])


if __name__ == "__main__":
    main()
