<?php
// A PHP application that reports how it read a request. Its router ignores case, as many do, and
// decodes the path.
$path = rawurldecode(parse_url('http://h' . preg_replace('#^/+#', '/', $_SERVER['REQUEST_URI']), PHP_URL_PATH) ?: '/');
$path = rtrim($path, '/');
$route = 'other';
$param = null;
if (strcasecmp($path, '/login') === 0) {
    $route = 'login';
} elseif (preg_match('#^/search/(.+)$#i', $path, $found)) {
    $route = 'search';
    $param = $found[1];
} elseif (preg_match('#^/admin/#i', $path)) {
    $route = 'admin';
}
$text = fn ($value) => is_array($value) ? json_encode($value) : $value;
header('Content-Type: application/json');
echo json_encode([
    'route' => $route,
    'method' => strtoupper($_SERVER['REQUEST_METHOD']),
    'header' => $_SERVER['HTTP_X_API_KEY'] ?? null,
    'cookie' => $text($_COOKIE['session'] ?? null),
    'query' => $text($_GET['k'] ?? null),
    'param' => $param,
], JSON_INVALID_UTF8_SUBSTITUTE);
