//! The configuration of each proxy.
//!
//! All have one thread, kept connections to the upstream, the client's address passed to the upstream and
//! no access log. The limit per address is never reached; paths that begin with [`TIGHT`] allow nearly
//! nothing, and paths that begin with [`FREE`] have no limit.

use std::net::SocketAddr;

use super::proxies::ProxyKind;

/// The prefix of paths with nearly all requests refused.
pub(super) const TIGHT: &str = "/tight";
/// The prefix of paths without a limit.
pub(super) const FREE: &str = "/free";

/// Returns the arguments, and the configuration files they name.
pub(super) fn config(
    kind: ProxyKind,
    at: SocketAddr,
    upstream: SocketAddr,
) -> (String, Vec<(&'static str, String)>) {
    let fill = |text: &str| {
        text.replace("PORT", &at.port().to_string())
            .replace("UPSTREAM_HOST", &upstream.ip().to_string())
            .replace("UPSTREAM_TCP", &upstream.port().to_string())
            .replace("UPSTREAM", &upstream.to_string())
    };
    match kind {
        ProxyKind::Tollgate => (
            format!(
                "gateway --to http://{upstream} --listen {at} --http 127.0.0.1:0 \
                 --rules rules.yaml --data data --threads 1"
            ),
            vec![("rules.yaml", fill(TOLLGATE))],
        ),
        ProxyKind::Nginx => {
            ("-p ./ -e stderr -c nginx.conf".into(), vec![("nginx.conf", fill(NGINX))])
        }
        ProxyKind::Haproxy => ("-f haproxy.cfg".into(), vec![("haproxy.cfg", fill(HAPROXY))]),
        ProxyKind::Envoy => (
            "-c envoy.yaml --concurrency 1 --disable-hot-restart --log-level error".into(),
            vec![("envoy.yaml", fill(ENVOY))],
        ),
        ProxyKind::Traefik => (
            "--configFile=traefik.yaml".into(),
            vec![("traefik.yaml", fill(TRAEFIK)), ("routes.yaml", fill(TRAEFIK_ROUTES))],
        ),
    }
}

const TOLLGATE: &str = "\
rules:
  - { name: wide, route: [/, /64k], per: ip, limit: 1000k/s }
  - { name: tight, route: /tight, per: ip, limit: 1/h }
";

/// nginx runs as one process.
const NGINX: &str = "\
master_process off; daemon off; pid nginx.pid;
events { worker_connections 16384; }
http {
  access_log off; keepalive_requests 1000000000; http2 on;
  error_log stderr crit;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
  scgi_temp_path t5; client_body_buffer_size 128k; proxy_buffers 16 8k;
  limit_req_zone $binary_remote_addr zone=wide:10m rate=1000000r/s;
  limit_req_zone $binary_remote_addr zone=tight:10m rate=1r/m;
  limit_req_status 429;
  upstream all { server UPSTREAM; keepalive 1024; keepalive_requests 1000000000; }
  proxy_http_version 1.1;
  proxy_set_header Connection \"\";
  proxy_set_header Host $host;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header X-Forwarded-Proto $scheme;
  server {
    listen 127.0.0.1:PORT backlog=4096;
    location / { limit_req zone=wide burst=1000000 nodelay; proxy_pass http://all; }
    location /tight { limit_req zone=tight; proxy_pass http://all; }
    location /free { proxy_pass http://all; }
  }
}
";

/// HAProxy wants twice as many files as connections; idle ones need only one.
const HAPROXY: &str = "\
global
  nbthread 1
  maxconn 16000
  no strict-limits
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 60s
  option forwardfor
  http-reuse always
backend wide
  stick-table type ip size 100k expire 60s store http_req_rate(1s)
backend tight
  stick-table type ip size 100k expire 1h store http_req_rate(1h)
frontend clients
  bind 127.0.0.1:PORT backlog 4096
  http-request set-header X-Forwarded-Proto http
  acl is_tight path_beg /tight
  acl is_free path_beg /free
  http-request track-sc0 src table tight if is_tight
  http-request track-sc0 src table wide if !is_tight !is_free
  http-request deny deny_status 429 if is_tight { sc_http_req_rate(0,tight) gt 1 }
  http-request deny deny_status 429 if !is_tight !is_free { sc_http_req_rate(0,wide) gt 1000000 }
  default_backend all
backend all
  server upstream UPSTREAM maxconn 8000 pool-max-conn 1024
";

/// Envoy has a bucket for each address: descriptors without a value make one per value.
const ENVOY: &str = "\
static_resources:
  listeners:
  - address: { socket_address: { address: 127.0.0.1, port_value: PORT } }
    tcp_backlog_size: 4096
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          use_remote_address: true
          generate_request_id: false
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:
              - match: { prefix: /free }
                route: { cluster: upstream }
              - match: { prefix: /tight }
                route: { cluster: upstream }
                typed_per_filter_config:
                  envoy.filters.http.local_ratelimit: &tight
                    '@type': type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
                    stat_prefix: tight
                    token_bucket: &few { max_tokens: 1, tokens_per_fill: 1, fill_interval: 3600s }
                    descriptors: [{ entries: [{ key: remote_address }], token_bucket: *few }]
                    rate_limits: &by_address [{ actions: [{ remote_address: {} }] }]
                    always_consume_default_token_bucket: false
                    max_dynamic_descriptors: 100000
                    filter_enabled: &all { default_value: { numerator: 100, denominator: HUNDRED } }
                    filter_enforced: *all
              - match: { prefix: / }
                route: { cluster: upstream }
                typed_per_filter_config:
                  envoy.filters.http.local_ratelimit:
                    '@type': type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
                    stat_prefix: wide
                    token_bucket: &many { max_tokens: 100000000, tokens_per_fill: 100000000, fill_interval: 1s }
                    descriptors: [{ entries: [{ key: remote_address }], token_bucket: *many }]
                    rate_limits: *by_address
                    always_consume_default_token_bucket: false
                    max_dynamic_descriptors: 100000
                    filter_enabled: *all
                    filter_enforced: *all
          http_filters:
          - name: envoy.filters.http.local_ratelimit
            typed_config:
              '@type': type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
              stat_prefix: none
          - name: envoy.filters.http.router
            typed_config: { '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
  - name: upstream
    type: STATIC
    circuit_breakers: { thresholds: [{ max_connections: 8000, max_pending_requests: 8000, max_requests: 8000 }] }
    load_assignment:
      cluster_name: upstream
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: UPSTREAM_HOST, port_value: UPSTREAM_TCP } } } }] }]
";

/// Traefik has no access log by default.
const TRAEFIK: &str = "\
global: { checkNewVersion: false, sendAnonymousUsage: false }
log: { level: ERROR }
entryPoints:
  clients: { address: '127.0.0.1:PORT' }
providers: { file: { filename: routes.yaml, watch: false } }
serversTransport: { maxIdleConnsPerHost: 1024 }
";

const TRAEFIK_ROUTES: &str = "\
http:
  routers:
    wide: { rule: 'PathPrefix(`/`)', service: upstream, middlewares: [wide] }
    tight: { rule: 'PathPrefix(`/tight`)', service: upstream, middlewares: [tight] }
    free: { rule: 'PathPrefix(`/free`)', service: upstream }
  middlewares:
    wide: { rateLimit: { average: 1000000, period: 1s, burst: 1000000 } }
    tight: { rateLimit: { average: 1, period: 1h, burst: 1 } }
  services:
    upstream: { loadBalancer: { servers: [{ url: 'http://UPSTREAM' }] } }
";
