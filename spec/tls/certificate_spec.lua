-- Tests that connect refuses files and texts that are no usable certificate or key, before the
-- client sends anything.
-- Needs: one plain member.

local certs, cast = suite.certs(), suite.cast()

-- Asserts that connect refuses valid options with |changes| by a message that matches |pattern|.
local function assert_invalid(pattern, changes)
  local opts = clients.with({
    endpoints = "https://127.0.0.1:1",
    cacert = cast.ca.cert, cert = cast.client.cert, key = cast.client.key,
  }, changes)
  local message = assert_fails("invalid", etcdlock.connect(opts))
  assert.matches(pattern, message)
  tls.assert_keeps_secrets(message)
end

describe("connect refuses", function()
  it("a certificate file that is missing, a directory or empty", function()
    assert_invalid('cacert "/nowhere/ca.pem" cannot be read: No such file',
      { cacert = "/nowhere/ca.pem" })
    assert_invalid('cert "/" ', { cert = "/" })
    assert_invalid("cacert .*holds no certificate", { cacert = cast.empty })
  end)

  it("a file that is no PEM, damaged or cut off", function()
    assert_invalid("cacert .*rubbish.pem\" holds no certificate", { cacert = cast.rubbish })
    assert_invalid("cert .*holds no certificate", { cert = cast.rubbish })
    assert_invalid("key .*holds no private key", { key = cast.rubbish })
    assert_invalid("cert .*damaged certificate", { cert = cast.damaged })
    assert_invalid("cacert .*damaged certificate", { cacert = certs:half(cast.ca.cert) })
    assert_invalid("cacert .*damaged certificate",
      { cacert = certs:bundle(cast.ca.cert, cast.damaged) })
    assert_invalid("key .*damaged private key", { key = certs:damaged(cast.client.key) })
    assert_invalid("key .*damaged private key", { key = certs:half(cast.client.key) })
  end)

  it("a key file given as a certificate, and the reverse", function()
    assert_invalid("cert .*private key, but no certificate", { cert = cast.client.key })
    assert_invalid("key .*certificate, but no private key", { key = cast.client.cert })
    assert_invalid("cacert .*private key, but no certificate", { cacert = cast.ca.key })
  end)

  it("a key that is encrypted with a password", function()
    assert_invalid("key .*is encrypted", { key = cast.client_encrypted.key })
  end)

  it("a key that does not fit the certificate", function()
    assert_invalid("key .*does not fit the certificate in cert", { key = cast.client_mismatch.key })
    assert_invalid("key_pem does not fit the certificate in cert",
      { key = NONE, key_pem = Certs.read(cast.client_mismatch.key) })
  end)

  it("a certificate without a key, and a key without a certificate", function()
    assert_invalid("cert .*without a key", { key = NONE })
    assert_invalid("key .*without a cert", { cert = NONE })
  end)

  it("a certificate that has expired or is not yet valid", function()
    assert_invalid("client certificate .*expired",
      { cert = cast.client_expired.cert, key = cast.client_expired.key })
    assert_invalid("client certificate .*not valid before",
      { cert = cast.client_future.cert, key = cast.client_future.key })
    assert_invalid("cacert .*CA certificate .*expired", { cacert = cast.expired_ca.cert })
  end)

  it("a PEM text given as a file name, and the reverse", function()
    assert_invalid("cacert .*must be a file name", { cacert = Certs.read(cast.ca.cert) })
    assert_invalid("key .*must be a file name", { key = Certs.read(cast.client.key) })
    assert_invalid("cacert_pem holds no certificate", { cacert = NONE, cacert_pem = cast.ca.cert })
    assert_invalid("key_pem holds no private key", { key = NONE, key_pem = cast.client.key })
  end)

  it("a file and a text for the same option", function()
    assert_invalid("only one of cacert and cacert_pem", { cacert_pem = Certs.read(cast.ca.cert) })
    assert_invalid("only one of cert and cert_pem", { cert_pem = Certs.read(cast.client.cert) })
    assert_invalid("only one of key and key_pem", { key_pem = Certs.read(cast.client.key) })
  end)
end)
