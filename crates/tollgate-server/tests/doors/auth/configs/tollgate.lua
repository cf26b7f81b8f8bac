-- Requests a decision from tollgate: HAProxy has no forward-auth, but since 2.5 an HTTP client for
-- Lua. The decision is in txn.tollgate_status and txn.tollgate_retry.
core.register_action("tollgate", { "http-req" }, function(txn, address)
  local headers = {}
  for name, values in pairs(txn.http:req_get_headers()) do
    -- Copies the headers of the request, except those that describe it, which are set below.
    if not name:match("^x%-forwarded%-") and not name:match("^x%-original%-")
        and name ~= "content-length" and name ~= "transfer-encoding" and name ~= "connection" then
      headers[name] = {}
      for index = 0, #values do
        if values[index] then table.insert(headers[name], values[index]) end
      end
    end
  end
  headers["x-forwarded-method"] = { txn.sf:method() }
  headers["x-forwarded-uri"] = { txn.sf:pathq() }
  headers["x-forwarded-for"] = { txn.sf:src() }
  headers["x-forwarded-host"] = { txn.sf:req_hdr("host") }
  local answer = core.httpclient():get({ url = address, headers = headers, timeout = 5000 })
  txn:set_var("txn.tollgate_status", answer.status or 0)
  local retry = answer.headers and answer.headers["retry-after"]
  txn:set_var("txn.tollgate_retry", retry and (retry[0] or retry[1]) or "1")
end, 1)
