"""Asks a server through grpcio: client.py WHAT ADDRESS [CA [CERTIFICATE KEY]]."""

import sys

import grpc
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
from google.protobuf import descriptor_pool
from google.protobuf.wrappers_pb2 import UInt64Value
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"
TIMEOUT = 20
Answer = rls_pb2.RateLimitResponse


def channel(address, files):
    if not files:
        # Otherwise the path of a unix socket is the name of the host, which HTTP/2 does not allow.
        return grpc.insecure_channel(address, [("grpc.default_authority", "localhost")])
    root, *own = [open(name, "rb").read() for name in files]
    certificate, key = own or (None, None)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(root, key, certificate))


def question(*descriptors, domain="demo", **rest):
    request = rls_pb2.RateLimitRequest(domain=domain, **rest)
    for entries in descriptors:
        added = request.descriptors.add()
        for key, value in entries.items():
            added.entries.add(key=key, value=value)
    return request


def equal(is_, wanted):
    assert is_ == wanted, f"{is_} instead of {wanted}"


def ask(opened):
    """Asks once; prints what it came to."""
    stub = rls_pb2_grpc.RateLimitServiceStub(opened)
    try:
        answer = stub.ShouldRateLimit(question({"user": "ann"}), timeout=TIMEOUT)
    except grpc.RpcError as error:
        return print(error.code().name)
    print(Answer.Code.Name(answer.overall_code), answer.statuses[0].limit_remaining)


def limits(opened):
    ask_ = rls_pb2_grpc.RateLimitServiceStub(opened).ShouldRateLimit
    for remaining in (2, 1, 0):
        answer = ask_(question({"user": "ann"}), timeout=TIMEOUT)
        equal(answer.overall_code, Answer.OK)
        equal(answer.statuses[0].limit_remaining, remaining)
        limit = answer.statuses[0].current_limit
        equal((limit.name, limit.requests_per_unit), ("users", 3))
        equal(limit.unit, Answer.RateLimit.HOUR)
        equal(answer.statuses[0].duration_until_reset.seconds, 3593)
    answer = ask_(question({"user": "ann"}, {"user": "bob"}), timeout=TIMEOUT)
    equal(answer.overall_code, Answer.OVER_LIMIT)
    equal([status.code for status in answer.statuses], [Answer.OVER_LIMIT, Answer.OK])

    heavy = question({"heavy": "x"}, hits_addend=4)
    equal(ask_(heavy, timeout=TIMEOUT).statuses[0].limit_remaining, 6)
    heavy.descriptors[0].hits_addend.CopyFrom(UInt64Value(value=0))
    equal(ask_(heavy, timeout=TIMEOUT).statuses[0].limit_remaining, 6)
    gold = ask_(question({"gold": "x"}), timeout=TIMEOUT)
    equal(gold.statuses[0].current_limit.unit, Answer.RateLimit.WEEK)
    equal(gold.dynamic_metadata["metadata"]["tier"], "gold")
    shadow = [ask_(question({"watched": "x"}), timeout=TIMEOUT) for _ in range(3)]
    equal([answer.overall_code for answer in shadow], [Answer.OK] * 3)
    equal(shadow[2].statuses[0].current_limit.requests_per_unit, 1)
    unknown = ask_(question({"user": "ann"}, domain="elsewhere"), timeout=TIMEOUT)
    equal((unknown.overall_code, unknown.statuses[0].HasField("current_limit")), (Answer.OK, False))
    try:
        ask_(question({"user": "ann"}, domain=""), timeout=TIMEOUT)
        raise AssertionError("an empty domain was answered")
    except grpc.RpcError as error:
        equal(error.code(), grpc.StatusCode.UNKNOWN)
        equal(error.details(), "rate limit domain must not be empty")
    answers = [ask_.future(question({"user": "zoe"}), timeout=TIMEOUT) for _ in range(200)]
    passed = sum(answer.result().overall_code == Answer.OK for answer in answers)
    equal(passed, 3)


def health(opened):
    stub = health_pb2_grpc.HealthStub(opened)
    for service in ("", "ratelimit", SERVICE):
        request = health_pb2.HealthCheckRequest(service=service)
        equal(stub.Check(request, timeout=TIMEOUT).status, health_pb2.HealthCheckResponse.SERVING)
        watch = stub.Watch(request, timeout=TIMEOUT)
        equal(next(watch).status, health_pb2.HealthCheckResponse.SERVING)
        watch.cancel()
    try:
        stub.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=TIMEOUT)
        raise AssertionError("nobody is healthy")
    except grpc.RpcError as error:
        equal(error.code(), grpc.StatusCode.NOT_FOUND)


def reflection(opened):
    database = ProtoReflectionDescriptorDatabase(opened)
    assert {SERVICE, "grpc.health.v1.Health"} <= set(database.get_services())
    pool = descriptor_pool.DescriptorPool(database)
    method = pool.FindServiceByName(SERVICE).FindMethodByName("ShouldRateLimit")
    published = rls_pb2.DESCRIPTOR.services_by_name["RateLimitService"].methods[0]
    compare(method.input_type, published.input_type, set())
    compare(method.output_type, published.output_type, set())
    # The messages of the newer version are the same.
    info = opened.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    answer = next(info(iter([request]), timeout=TIMEOUT))
    assert SERVICE in [service.name for service in answer.list_services_response.service]


# What came to Envoy after the published messages.
NEWER = {"is_negative_hits"}


def compare(ours, published, seen):
    """Every field has the name, the number and the type it has in Envoy."""
    if ours.full_name in seen or ours.full_name.startswith("google.protobuf."):
        return
    seen.add(ours.full_name)
    fields = {field.name: field for field in published.fields}
    mine = {field.name: field for field in ours.fields}
    equal(set(mine) - NEWER, set(fields))
    for name, field in fields.items():
        own = mine[name]
        equal((own.number, own.type, own.is_repeated), (field.number, field.type, field.is_repeated))
        if field.message_type:
            equal(own.message_type.full_name, field.message_type.full_name)
            compare(own.message_type, field.message_type, seen)
        if field.enum_type:
            values = lambda of: {value.name: value.number for value in of.enum_type.values}
            equal(values(own), values(field))


if __name__ == "__main__":
    what, address, *files = sys.argv[1:]
    with channel(address, files) as opened:
        globals()[what](opened)
    if what != "ask":
        print(f"{what}: fine")
