// Receives traces by OTLP over gRPC on a port, and prints them once it has the wanted number.
const {MockOtlpServer} = require('@elastic/mockotlpserver');

const [port, wanted] = process.argv.slice(2).map(Number);
const spans = [];
const value = (attribute) => attribute.value.stringValue ?? String(attribute.value.intValue);
const server = new MockOtlpServer({
    logLevel: 'fatal',
    services: ['grpc'],
    grpcHostname: '127.0.0.1',
    grpcPort: port,
    onTrace(request) {
        for (const resource of request.resourceSpans) {
            const service = resource.resource.attributes.find((a) => a.key === 'service.name');
            for (const scope of resource.scopeSpans) {
                for (const span of scope.spans) {
                    const attributes = {};
                    for (const a of span.attributes) attributes[a.key] = value(a);
                    spans.push({service: value(service), name: span.name, attributes});
                }
            }
        }
        if (spans.length >= wanted) {
            console.log(JSON.stringify(spans));
            process.exit(0);
        }
    },
});
server.start();
