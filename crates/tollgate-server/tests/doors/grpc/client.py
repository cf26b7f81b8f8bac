"""Calls a server through grpcio: client.py TEST ADDRESS [CA [CERTIFICATE KEY]]."""

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
Response = rls_pb2.RateLimitResponse


def channel(address, files):
    if not files:
        # By default the path of a Unix socket is the authority, which HTTP/2 does not allow.
        return grpc.insecure_channel(address, [("grpc.default_authority", "localhost")])
    root, *own = [open(name, "rb").read() for name in files]
    certificate, key = own or (None, None)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(root, key, certificate))


def request_for(*descriptors, domain="demo", **rest):
    request = rls_pb2.RateLimitRequest(domain=domain, **rest)
    for entries in descriptors:
        added = request.descriptors.add()
        for key, value in entries.items():
            added.entries.add(key=key, value=value)
    return request


def equal(is_, wanted):
    assert is_ == wanted, f"{is_} instead of {wanted}"


def decide(opened):
    """Sends one request and prints the outcome."""
    stub = rls_pb2_grpc.RateLimitServiceStub(opened)
    try:
        response = stub.ShouldRateLimit(request_for({"user": "ann"}), timeout=TIMEOUT)
    except grpc.RpcError as error:
        return print(error.code().name)
    print(Response.Code.Name(response.overall_code), response.statuses[0].limit_remaining)


def limits(opened):
    call = rls_pb2_grpc.RateLimitServiceStub(opened).ShouldRateLimit
    for remaining in (2, 1, 0):
        response = call(request_for({"user": "ann"}), timeout=TIMEOUT)
        equal(response.overall_code, Response.OK)
        equal(response.statuses[0].limit_remaining, remaining)
        limit = response.statuses[0].current_limit
        equal((limit.name, limit.requests_per_unit), ("users", 3))
        equal(limit.unit, Response.RateLimit.HOUR)
        equal(response.statuses[0].duration_until_reset.seconds, 3593)
    response = call(request_for({"user": "ann"}, {"user": "bob"}), timeout=TIMEOUT)
    equal(response.overall_code, Response.OVER_LIMIT)
    equal([status.code for status in response.statuses], [Response.OVER_LIMIT, Response.OK])

    heavy = request_for({"heavy": "x"}, hits_addend=4)
    equal(call(heavy, timeout=TIMEOUT).statuses[0].limit_remaining, 6)
    heavy.descriptors[0].hits_addend.CopyFrom(UInt64Value(value=0))
    equal(call(heavy, timeout=TIMEOUT).statuses[0].limit_remaining, 6)
    gold = call(request_for({"gold": "x"}), timeout=TIMEOUT)
    equal(gold.statuses[0].current_limit.unit, Response.RateLimit.WEEK)
    equal(gold.dynamic_metadata["metadata"]["tier"], "gold")
    shadow = [call(request_for({"watched": "x"}), timeout=TIMEOUT) for _ in range(3)]
    equal([response.overall_code for response in shadow], [Response.OK] * 3)
    equal(shadow[2].statuses[0].current_limit.requests_per_unit, 1)
    unknown = call(request_for({"user": "ann"}, domain="elsewhere"), timeout=TIMEOUT)
    equal((unknown.overall_code, unknown.statuses[0].HasField("current_limit")), (Response.OK, False))
    try:
        call(request_for({"user": "ann"}, domain=""), timeout=TIMEOUT)
        raise AssertionError("an empty domain was answered")
    except grpc.RpcError as error:
        equal(error.code(), grpc.StatusCode.UNKNOWN)
        equal(error.details(), "rate limit domain must not be empty")
    responses = [call.future(request_for({"user": "zoe"}), timeout=TIMEOUT) for _ in range(200)]
    passed = sum(response.result().overall_code == Response.OK for response in responses)
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
        stub.Check(health_pb2.HealthCheckRequest(service="unknown"), timeout=TIMEOUT)
        raise AssertionError("an unknown service is healthy")
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
    response = next(info(iter([request]), timeout=TIMEOUT))
    assert SERVICE in [service.name for service in response.list_services_response.service]


# Fields that Envoy added after the published messages.
NEWER = {"is_negative_hits"}


def compare(ours, published, seen):
    """Checks that every field has the name, the number and the type of Envoy's."""
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
            values = lambda field: {value.name: value.number for value in field.enum_type.values}
            equal(values(own), values(field))


if __name__ == "__main__":
    test, address, *files = sys.argv[1:]
    with channel(address, files) as opened:
        globals()[test](opened)
    if test != "decide":
        print(f"{test}: fine")
