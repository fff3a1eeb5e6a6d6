"""A gRPC server with the standard health service, on gRPC's own library and on protobuf's encoding.

Arguments: addresses in plain text, with TLS and without a health service, key file, certificate file.
"""

import sys
import time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PROTO = descriptor_pb2.FileDescriptorProto(name="health.proto", package="grpc.health.v1", syntax="proto3")
STRING, ENUM, OPTIONAL = 9, 14, 1
asked = PROTO.message_type.add(name="HealthCheckRequest")
asked.field.add(name="service", number=1, type=STRING, label=OPTIONAL)
reply = PROTO.message_type.add(name="HealthCheckResponse")
values = reply.enum_type.add(name="ServingStatus")
STATUS = {"UNKNOWN": 0, "SERVING": 1, "NOT_SERVING": 2, "SERVICE_UNKNOWN": 3}
for name, number in STATUS.items():
    values.value.add(name=name, number=number)
reply.field.add(
    name="status", number=1, type=ENUM, label=OPTIONAL,
    type_name=".grpc.health.v1.HealthCheckResponse.ServingStatus",
)
POOL = descriptor_pool.DescriptorPool()
POOL.Add(PROTO)
# Its name before and after protobuf 4.22.
message_class = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(POOL).GetPrototype
Request = message_class(POOL.FindMessageTypeByName("grpc.health.v1.HealthCheckRequest"))
Response = message_class(POOL.FindMessageTypeByName("grpc.health.v1.HealthCheckResponse"))


def check(request, context):
    service = request.service
    if service == "":
        return Response(status=STATUS["SERVING"])
    if service == "breaks":
        raise RuntimeError("broken inside")
    if service == "hangs":
        time.sleep(20)
    if service == "full":
        context.abort(grpc.StatusCode.UNAVAILABLE, "no more calls: 100 % busy")
    if service.removeprefix("is ") in STATUS:
        return Response(status=STATUS[service.removeprefix("is ")])
    context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")


def server(handlers):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    server.add_generic_rpc_handlers(handlers)
    return server


def main():
    plain, secure, without, key, certificate = sys.argv[1:]
    method = grpc.unary_unary_rpc_method_handler(check, Request.FromString, Response.SerializeToString)
    health = server((grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": method}),))
    with open(key, "rb") as file:
        key = file.read()
    with open(certificate, "rb") as file:
        certificate = file.read()
    credentials = grpc.ssl_server_credentials([(key, certificate)])
    other = server(())
    bound = [
        other.add_insecure_port(without),
        health.add_secure_port(secure, credentials),
        health.add_insecure_port(plain),
    ]
    assert all(bound), bound
    other.start()
    health.start()
    health.wait_for_termination()


main()
