"""Whether the document at this URL is valid OpenAPI 3.1. Ends with `ok`."""

import json
import sys
import urllib.request

from openapi_spec_validator import OpenAPIV31SpecValidator

with urllib.request.urlopen(sys.argv[1], timeout=10) as response:
    assert response.headers["Content-Type"] == "application/json", response.headers
    document = json.load(response)

errors = list(OpenAPIV31SpecValidator(document).iter_errors())
for error in errors:
    print(error)
assert not errors and document["openapi"].startswith("3.1."), document["openapi"]
print("ok")
