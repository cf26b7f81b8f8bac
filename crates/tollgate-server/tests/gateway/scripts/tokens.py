# Makes tokens with PyJWT: the first argument is the time of issue. Prints keys and tokens as JSON.
import base64, hashlib, hmac, json, sys
import jwt
from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

now = int(sys.argv[1])
b64 = lambda raw: base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
secret = bytes(range(32))
private = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
other = rsa.generate_private_key(65537, 2048)
pem = lambda key: key.public_key().public_bytes(ser.Encoding.PEM, ser.PublicFormat.SubjectPublicKeyInfo).decode()
claims = {"sub": "ann", "plan": "pro", "iss": "https://id.example", "aud": ["web", "api"],
          "iat": now, "nbf": now, "exp": now + 600}
sign = lambda change={}, key=private["RS256"], alg="RS256", **header: jwt.encode(
    {k: v for k, v in {**claims, **change}.items() if v is not None}, key, alg, headers=header)

def by_hand(header, key=None, payload=claims):
    signed = b64(json.dumps(header).encode()) + "." + b64(json.dumps(payload).encode())
    signature = hmac.new(key, signed.encode(), hashlib.sha256).digest() if key else b""
    return signed + "." + b64(signature)

rsa_pem = pem(private["RS256"]).encode()
valid = {alg: sign(key=key, alg=alg) for alg, key in private.items()}
for alg in ["RS384", "RS512", "PS256", "PS384", "PS512"]:
    valid[alg] = sign(alg=alg)
valid["HS256"] = sign(key=secret, alg="HS256")
valid["no dates"] = sign({"exp": None, "nbf": None, "iat": None})
header, payload, signature = valid["RS256"].split(".")
foreign_jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(other.public_key()))
attacks = {
    "alg none": by_hand({"alg": "none", "typ": "JWT"}),
    "alg None": by_hand({"alg": "None"}),
    "alg none with the signature": by_hand({"alg": "none"}) + signature,
    "HS256 with the public key": by_hand({"alg": "HS256"}, rsa_pem),
    "HS256 with the public key, stripped": by_hand({"alg": "HS256"}, rsa_pem.strip()),
    "HS256 with an empty secret": by_hand({"alg": "HS256"}, b"\0"),
    "another key": sign(key=other),
    "another key under our kid": sign(key=other, kid="rs"),
    "a key in the token": sign(key=other, jwk=foreign_jwk),
    "a key at an address": sign(key=other, jku="http://127.0.0.1:1/jwks"),
    "kid as a path": sign(key=other, kid="../../../../dev/null"),
    "kid as SQL": sign(key=other, kid="' UNION SELECT 'k"),
    "critical header": sign(crit=["b64"], b64=True),
    "expired": sign({"exp": now - 60}),
    "not yet valid": sign({"nbf": now + 60}),
    "exp is text": by_hand({"alg": "HS256"}, secret, {**claims, "exp": "9999999999"}),
    "another audience": sign({"aud": "other"}),
    "no audience": sign({"aud": None}),
    "another issuer": sign({"iss": "https://id.example.evil"}),
    "changed claims": ".".join([header, b64(json.dumps({**claims, "plan": "free"}).encode()), signature]),
    "cut signature": valid["RS256"][:-8],
    "no signature": header + "." + payload + ".",
    "two parts": header + "." + payload,
    "four parts": valid["RS256"] + "." + signature,
    "padding": valid["RS256"] + "=",
    "not base64": "a.b.c!",
    "huge": sign({"x": "x" * 20000}),
    "ES256 on another curve": sign(key=private["ES384"], alg="ES384").replace(
        b64(b'{"alg":"ES384","typ":"JWT"}'), b64(b'{"alg":"ES256","typ":"JWT"}')),
    "ES256 of zeros": valid["ES256"].rsplit(".", 1)[0] + "." + b64(bytes(64)),
    "empty": "",
}
jwk = lambda name, kid: {**json.loads({"RS256": jwt.algorithms.RSAAlgorithm, "ES256": jwt.algorithms.ECAlgorithm,
    "ES384": jwt.algorithms.ECAlgorithm, "EdDSA": jwt.algorithms.OKPAlgorithm}[name].to_jwk(
    private[name].public_key())), "kid": kid, "use": "sig"}
print(json.dumps({
    "pem": "".join(pem(key) for key in private.values()),
    "jwks": {"keys": [jwk("RS256", "rs"), jwk("ES256", "es"), jwk("ES384", "es3"), jwk("EdDSA", "ed")]},
    "secret": {"keys": [{"kty": "oct", "k": b64(secret)}]},
    "valid": valid, "attacks": attacks,
    "rotated": {"jwks": {"keys": [{**foreign_jwk, "kid": "new"}]}, "token": sign(key=other, kid="new")},
    "named": sign(kid="rs"),
    "dated": sign({"exp": now + 100}),
}))
